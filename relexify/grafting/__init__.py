"""Tokenizer, embeddings, head and config into a model that AutoModel loads."""

from relexify.grafting.fresh import fresh_twin
from relexify.grafting.graft import MIXTURE_FILE, REPORT_FILE, Graft, GraftReport, graft
from relexify.grafting.identifiers import check_roles
from relexify.grafting.lexical import lexical_axes
from relexify.grafting.loading import cache_folder, load_model, load_tokenizer
from relexify.grafting.tokenizer import save_tokenizer, train_joint_tokenizer, train_tokenizer

__all__ = [
    "MIXTURE_FILE",
    "REPORT_FILE",
    "Graft",
    "GraftReport",
    "cache_folder",
    "check_roles",
    "fresh_twin",
    "graft",
    "lexical_axes",
    "load_model",
    "load_tokenizer",
    "save_tokenizer",
    "train_joint_tokenizer",
    "train_tokenizer",
]
