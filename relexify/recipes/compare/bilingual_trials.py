"""The single runs of a comparison of bilingual models: grafted, trained in two steps, and measured."""

from __future__ import annotations

import json
import logging
import shutil
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar

from relexify.errors import InputError
from relexify.recipes.bilingual import check_steps, step_with_text, train_in_two_steps
from relexify.recipes.compare.trials import Trial, TrialResult, training_identity
from relexify.systems.bilingual.options import BilingualOptions
from relexify.systems.bilingual.recipe import FIRST_STEP_FILE
from relexify.systems.transfer.options import Transfer
from relexify.text import Corpus
from relexify.training.curve import Curve
from relexify.training.plan import Training

__all__ = ["BilingualTrial", "in_two_languages"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class BilingualTrial(Trial):
    """One run of a comparison of bilingual models.

    Tasks are measured at the end alone, since there is no bilingual model before.

    Attributes:
        step: How both languages are trained together.
    """

    moments: ClassVar[tuple[str, ...]] = ("end",)

    step: BilingualOptions

    def kept(self) -> TrialResult | None:
        """What an earlier call came to, if it came to an end."""
        found = super().kept()
        if found is not None:
            self._clear()
        return None if found is None else replace(found, earlier=self._first_step())

    def carry_out(self) -> TrialResult:
        """Graft, train in two steps and measure, each unless an earlier call did."""
        found = super().carry_out()
        self._clear()
        return replace(found, earlier=self._first_step())

    def check(self) -> None:
        """Refuse what cannot be trained.

        Raises:
            InputError: The model or the numbers do not fit.
        """
        check_steps(self.transfer.model, self.training, self.step)

    def _asked(self) -> dict[str, Any]:
        texts = (self.step.source_corpus, self.step.source_held_out)
        asked = {
            "languages": self.step.languages,
            "texts": [None if text is None else Corpus.open(text).fingerprint() for text in texts],
            "training": training_identity(self.step.training),
        }
        return super()._asked() | {"bilingual": json.loads(json.dumps(asked))}

    def _trained(self) -> Curve:
        first, joined = train_in_two_steps(self.transfer, self.training, self.step, self._target, self._model)
        if first is not None:
            first.save(self.folder / FIRST_STEP_FILE)
        return joined.curve

    @property
    def _target(self) -> Path:
        return self.folder / "target"

    def _clear(self) -> None:
        """Remove the model of the first step, once the curve of the second is written."""
        shutil.rmtree(self._target, ignore_errors=True)

    def _first_step(self) -> Curve | None:
        """What was measured in the first step, if that can be read."""
        path = self.folder / FIRST_STEP_FILE
        try:
            return Curve.load(path)
        except InputError as error:
            logger.warning("%s cannot be read, and tables leave the first step out (%s)", path, error)
            return None


def in_two_languages(
    trial: Trial, step: BilingualOptions, training: Training, transfer: Transfer, recipe: Path
) -> BilingualTrial:
    """The same run, followed by the training of both languages.

    Args:
        trial: Of one language.
        step: How both languages are trained.
        training: How the new language is trained before.
        transfer: That of the recipe, with all its evidence.
        recipe: The file, for messages.

    Raises:
        InputError: There is no text of the model's language.
    """
    seed = trial.training.seed
    step = step_with_text(step, transfer, recipe)
    step = replace(step, training=replace(step.training, seed=seed))
    values = {entry.name: getattr(trial, entry.name) for entry in fields(trial)}
    return BilingualTrial(**values | {"training": replace(training, seed=seed)}, step=step)
