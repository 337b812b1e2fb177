"""Put a Mixture onto a model, giving a model that AutoModel loads."""

from relexify.grafting.check import CheckResult, check
from relexify.grafting.graft import MIXTURE_FILE, REPORT_FILE, Graft, GraftReport, graft, is_tied, row_origins
from relexify.grafting.identifiers import check_roles
from relexify.grafting.pruning import PruneResult, prune
from relexify.grafting.unigram import UnigramReport, add_unigram_prior, sample_paragraphs

__all__ = [
    "MIXTURE_FILE",
    "REPORT_FILE",
    "CheckResult",
    "Graft",
    "GraftReport",
    "PruneResult",
    "UnigramReport",
    "add_unigram_prior",
    "check",
    "check_roles",
    "graft",
    "is_tied",
    "prune",
    "row_origins",
    "sample_paragraphs",
]
