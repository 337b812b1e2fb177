"""relexify gives a pretrained language model a new language.

    import relexify as rx

    rx.transfer(rx.Transfer(model="gpt2", output="gpt2-swahili", corpus="swahili.txt", dictionary="en-sw.tsv"))
    rx.train("gpt2-swahili", "gpt2-swahili-trained", "swahili.txt", rx.Training(steps=5_000))

Verbs of the command line that compute something are functions of the same name. Packages such as `rx.methods`,
`rx.mixture` and `rx.evidence` hold the parts that they are made of. Names are imported at first use, so `import
relexify` loads neither torch nor transformers.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from relexify.registry import search_in
from relexify.version import __version__

# Every public name is listed three times, because type checkers and editors understand only imports and a literal
# `__all__`, and at run time the import must wait: below for them, in `__all__`, and in `_MODULES`.
if TYPE_CHECKING:
    from relexify.errors import RelexifyError
    from relexify.evaluation.evaluate import evaluate_task as evaluate
    from relexify.evaluation.options import Evaluation
    from relexify.evaluation.text import TextScoring, score_text
    from relexify.evidence.alignment import Rotation, align
    from relexify.evidence.bitext import Bitext
    from relexify.evidence.lexicon import BilingualLexicon
    from relexify.evidence.vectors import WordVectors, train_vectors
    from relexify.grafting import Graft, check, graft, prune
    from relexify.mixture import Mixture
    from relexify.pretrained.languages import export_language as export
    from relexify.pretrained.loading import load_model, load_tokenizer
    from relexify.pretrained.tokenizers import train_tokenizer
    from relexify.recipes.advise.options import Advise
    from relexify.recipes.advise.run import run_advise as advise
    from relexify.recipes.compare.run import run_comparison as compare
    from relexify.recipes.file.recipe import Recipe, read_recipe
    from relexify.recipes.run import run_recipe as run
    from relexify.reports.html import report
    from relexify.reports.push import push
    from relexify.systems.bilingual.training import train_bilingual as bilingual
    from relexify.systems.compression.folder import compress_folder as compress
    from relexify.systems.compression.folder import expand_folder as expand
    from relexify.systems.compression.options import Compression
    from relexify.systems.transfer.grid.cells import GridSearch
    from relexify.systems.transfer.grid.run import run_grid as grid
    from relexify.systems.transfer.options import Transfer
    from relexify.systems.transfer.run import run_transfer as transfer
    from relexify.systems.trelm.options import Trelm
    from relexify.systems.trelm.run import run_trelm as trelm
    from relexify.text import Corpus
    from relexify.training.cost.estimate import estimate
    from relexify.training.options import Training
    from relexify.training.run import train

__all__ = [
    "Advise",
    "BilingualLexicon",
    "Bitext",
    "Compression",
    "Corpus",
    "Evaluation",
    "Graft",
    "GridSearch",
    "Mixture",
    "Recipe",
    "RelexifyError",
    "Rotation",
    "TextScoring",
    "Training",
    "Transfer",
    "Trelm",
    "WordVectors",
    "__version__",
    "advise",
    "align",
    "bilingual",
    "check",
    "compare",
    "compress",
    "estimate",
    "evaluate",
    "expand",
    "export",
    "graft",
    "grid",
    "load_model",
    "load_tokenizer",
    "prune",
    "push",
    "read_recipe",
    "report",
    "run",
    "score_text",
    "train",
    "train_tokenizer",
    "train_vectors",
    "transfer",
    "trelm",
]

_MODULES = {
    "Advise": "recipes.advise.options",
    "BilingualLexicon": "evidence.lexicon",
    "Bitext": "evidence.bitext",
    "Compression": "systems.compression.options",
    "Corpus": "text",
    "Evaluation": "evaluation.options",
    "Graft": "grafting",
    "GridSearch": "systems.transfer.grid.cells",
    "Mixture": "mixture",
    "Recipe": "recipes.file.recipe",
    "RelexifyError": "errors",
    "Rotation": "evidence.alignment",
    "TextScoring": "evaluation.text",
    "Training": "training.options",
    "Transfer": "systems.transfer.options",
    "Trelm": "systems.trelm.options",
    "WordVectors": "evidence.vectors",
    "advise": "recipes.advise.run:run_advise",
    "align": "evidence.alignment",
    "bilingual": "systems.bilingual.training:train_bilingual",
    "check": "grafting",
    "compare": "recipes.compare.run:run_comparison",
    "compress": "systems.compression.folder:compress_folder",
    "estimate": "training.cost.estimate",
    "evaluate": "evaluation.evaluate:evaluate_task",
    "expand": "systems.compression.folder:expand_folder",
    "export": "pretrained.languages:export_language",
    "graft": "grafting",
    "grid": "systems.transfer.grid.run:run_grid",
    "load_model": "pretrained.loading",
    "load_tokenizer": "pretrained.loading",
    "prune": "grafting",
    "push": "reports.push",
    "read_recipe": "recipes.file.recipe",
    "report": "reports.html",
    "run": "recipes.run:run_recipe",
    "score_text": "evaluation.text",
    "train": "training.run",
    "train_tokenizer": "pretrained.tokenizers",
    "train_vectors": "evidence.vectors",
    "transfer": "systems.transfer.run:run_transfer",
    "trelm": "systems.trelm.run:run_trelm",
}
"""The module of each public name, and after a colon its name there if that is another."""

_PACKAGES = (
    "errors",
    "evaluation",
    "evidence",
    "methods",
    "mixture",
    "reports",
    "scoring",
    "text",
    "tokens",
    "training",
)

# Lower packages have registries and know nothing of those that add to them: this is the one place that knows both.
search_in("method", "relexify.methods", "relexify.systems.*.method")
search_in("kind of model", "relexify.systems.*.kind")
search_in("recipe table", "relexify.training.recipe", "relexify.systems.*.recipe")
search_in("task", "relexify.evaluation.tasks")
search_in("entry of relexify.json", "relexify.training.results.notes", "relexify.systems.*.notes")
search_in("document", "relexify.reports.model_card", "relexify.reports.html.report")


def __getattr__(name: str) -> Any:
    """Import a public name at first use."""
    if name in _MODULES:
        module, _, there = _MODULES[name].partition(":")
        return getattr(import_module(f"relexify.{module}"), there or name)
    if name in _PACKAGES:
        return import_module(f"relexify.{name}")
    raise AttributeError(f"module 'relexify' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, *_PACKAGES]
