"""Apply a Mixture to a model; AutoModel can load the result.

graft.py         `graft`: put the target tokenizer and mixed embeddings onto the unchanged inner parameters
identifiers.py   ids of special tokens in the configs
unigram.py       give the grafted model the unigram distribution of its text
unigram_text.py  sample the text in which this distribution is counted and tested
check.py         check the folder of a grafted model
vocabulary.py    validate that a graft still has the tokenizer that its embeddings were built for
pruning.py       remove the tokens that a text never uses
swap.py          use a model that was fine-tuned in one language to read another
"""

from relexify.grafting.check import CheckResult, check
from relexify.grafting.graft import Graft, GraftReport, graft, is_tied, row_origins
from relexify.grafting.identifiers import check_roles
from relexify.grafting.pruning import PruneResult, prune
from relexify.grafting.unigram import (
    UnigramPrior,
    UnigramReport,
    add_unigram_prior,
    count_read_tokens,
    find_unigram_prior,
)
from relexify.grafting.unigram_text import sample_paragraphs
from relexify.grafting.vocabulary import check_own_tokenizer, describe_other_tokens, load_own_tokenizer

__all__ = [
    "CheckResult",
    "Graft",
    "GraftReport",
    "PruneResult",
    "UnigramPrior",
    "UnigramReport",
    "add_unigram_prior",
    "check",
    "check_own_tokenizer",
    "check_roles",
    "count_read_tokens",
    "describe_other_tokens",
    "find_unigram_prior",
    "graft",
    "is_tied",
    "load_own_tokenizer",
    "prune",
    "row_origins",
    "sample_paragraphs",
]
