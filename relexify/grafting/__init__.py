"""Tokenizer, embeddings, head and config into a model that AutoModel loads."""

from relexify.grafting.cache import cache_folder
from relexify.grafting.fresh import fresh_model, fresh_twin
from relexify.grafting.graft import MIXTURE_FILE, REPORT_FILE, Graft, GraftReport, graft
from relexify.grafting.heads import add_head, has_head
from relexify.grafting.identifiers import check_roles
from relexify.grafting.lexical import lexical_axes
from relexify.grafting.loading import (
    BILINGUAL,
    TRILAYER,
    class_in_form,
    hollow_model,
    is_bilingual,
    is_trilayer,
    load_config,
    load_model,
    load_tokenizer,
    resolve,
    with_added_head,
)
from relexify.grafting.tokenizer import save_tokenizer, train_joint_tokenizer, train_tokenizer

__all__ = [
    "BILINGUAL",
    "MIXTURE_FILE",
    "REPORT_FILE",
    "TRILAYER",
    "Graft",
    "GraftReport",
    "add_head",
    "cache_folder",
    "check_roles",
    "class_in_form",
    "fresh_model",
    "fresh_twin",
    "graft",
    "has_head",
    "hollow_model",
    "is_bilingual",
    "is_trilayer",
    "lexical_axes",
    "load_config",
    "load_model",
    "load_tokenizer",
    "resolve",
    "save_tokenizer",
    "train_joint_tokenizer",
    "train_tokenizer",
    "with_added_head",
]
