"""Everything that depends on Hugging Face: architectures, loading, the Hub, packaged weights."""

from relexify.pretrained.fresh import fresh_model, fresh_twin
from relexify.pretrained.heads import add_head, has_head
from relexify.pretrained.loading import (
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
from relexify.pretrained.tokenizers import save_tokenizer, train_joint_tokenizer, train_tokenizer

__all__ = [
    "BILINGUAL",
    "TRILAYER",
    "add_head",
    "class_in_form",
    "fresh_model",
    "fresh_twin",
    "has_head",
    "hollow_model",
    "is_bilingual",
    "is_trilayer",
    "load_config",
    "load_model",
    "load_tokenizer",
    "resolve",
    "save_tokenizer",
    "train_joint_tokenizer",
    "train_tokenizer",
    "with_added_head",
]
