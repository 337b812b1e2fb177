"""transformers' Trainer for one stage: summed nats as loss, a fixed order, sealed checkpoints, held-out scores.

Everything that makes training hard (devices, accumulation, precision, schedules, resuming) is the Trainer's and
accelerate's own. Here is only what they leave open.
"""

from __future__ import annotations

import logging
import math
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from safetensors import SafetensorError
from torch.utils.data import Sampler, SequentialSampler
from transformers import PrinterCallback, Trainer

from relexify.errors import OutputError, TrainingError, first_line
from relexify.pretrained.architecture import IGNORED
from relexify.progress import track
from relexify.scoring import HeldOut, Score, scores_of
from relexify.storage.checkpoints import drop_checkpoint, seal, sealed_checkpoints
from relexify.training.data.batches import Sequences
from relexify.training.engine.callbacks import Schedule, Watch
from relexify.training.engine.cuda_graph import CapturedPass

__all__ = ["StageTrainer"]

BITS, PERPLEXITY = "eval_bits_per_byte", "eval_perplexity"
CHECKPOINTS_KEPT = 2
FORGETTING = 0.03
"""How much worse the first of two languages may get before a warning says so."""
_COUNT = "labels that count"

logger = logging.getLogger(__name__)


class StageTrainer(Trainer):  # type: ignore[misc]
    """Trains one stage of a model whose forward gives summed nats (see `loss_forward`)."""

    def __init__(
        self,
        model: Any,
        arguments: Any,
        sequences: Sequences,
        watch: Watch,
        callbacks: list[Any],
        *,
        optimiser: tuple[Any, dict[str, Any]] | None = None,
        captured: bool = False,
    ) -> None:
        super().__init__(
            model=model,
            args=arguments,
            train_dataset=sequences,
            eval_dataset=sequences,  # asked for, never read: see `evaluate`
            data_collator=_ready,
            callbacks=[*callbacks, Schedule(watch)],
            optimizer_cls_and_kwargs=optimiser,
        )
        self.remove_callback(PrinterCallback)
        self.watch = watch
        self.model_accepts_loss_kwargs = True  # the loss below is already over the whole accumulated batch
        self._finite = torch.ones((), dtype=torch.bool, device=self.args.device)
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        parts = self.args.gradient_accumulation_steps
        self._pass: Callable[[Mapping[str, torch.Tensor]], torch.Tensor] = (
            CapturedPass(self._forward_and_backward, trained, accumulates=parts > 1)
            if captured
            else self._forward_and_backward
        )

    def _get_train_sampler(self, train_dataset: Any = None) -> Sampler[int]:
        return SequentialSampler(self.train_dataset)

    def get_batch_samples(
        self, epoch_iterator: Iterator[Any], num_batches: int, device: torch.device
    ) -> tuple[list[Any], torch.Tensor]:
        """The parts of one step, and how many labels count in all of them on all devices, for each objective."""
        parts = list(islice(epoch_iterator, num_batches))
        turns = self.train_dataset.blocks.objectives
        labels = [(part["labels"] != IGNORED).unflatten(0, (-1, turns)) for part in parts]
        counts = [known.sum(dim=(0, 2)) for known in labels]
        count = torch.stack(counts).sum(dim=0).to(device) if counts else torch.zeros(turns, device=device)
        return parts, self.accelerator.reduce(count, "sum") if self.args.world_size > 1 else count

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> torch.Tensor:
        """Forward and backward of one part, without the walks through all modules that keep a fast GPU waiting."""
        return self._pass({**self._prepare_inputs(inputs), _COUNT: num_items_in_batch})

    def _forward_and_backward(self, arrays: Mapping[str, torch.Tensor]) -> torch.Tensor:
        inputs = {name: array for name, array in arrays.items() if name != _COUNT}
        loss = self.compute_loss(self.model_wrapped, inputs, num_items_in_batch=arrays[_COUNT])
        self.accelerator.backward(loss)
        return loss.detach()

    def _clip_grad_norm(self, model: Any) -> Any:
        """The same norm, again without a walk where there is one device."""
        if self.args.world_size > 1:
            return super()._clip_grad_norm(model)
        groups = self.optimizer.param_groups
        trained = [parameter for group in groups for parameter in group["params"]]
        return torch.nn.utils.clip_grad_norm_(trained, self.args.max_grad_norm)

    def floating_point_ops(self, inputs: Any) -> int:
        """Not counted: it walks through all modules in every step."""
        return 0

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> torch.Tensor:
        """Mean nats a label of the whole step, or the sum of each objective's; devices average, hence their number."""
        asked = num_items_in_batch.clamp(min=1)  # chance may leave a few short sequences without a masked token
        loss: torch.Tensor = (model(**inputs) * self.args.world_size / asked).sum()
        self._finite &= loss.detach().isfinite()
        return loss

    def evaluate(
        self, eval_dataset: Any = None, ignore_keys: Any = None, metric_key_prefix: str = "eval"
    ) -> dict[str, float]:
        """Measure on held-out text, each device its share of the windows; of two languages, the means are the score."""
        self._check_finite()
        was_training = self.model_wrapped.training
        self.model_wrapped.eval()
        scores = {language: self._scores(language, text) for language, text in self.watch.held_out.items()}
        self.model_wrapped.train(was_training)
        bits = {language: pair[0].value for language, pair in scores.items()}
        logarithms = [math.log(pair[1].value) for pair in scores.values()]
        metrics = {BITS: fmean(bits.values()), PERPLEXITY: math.exp(fmean(logarithms))}
        metrics |= {f"{BITS}_{language}": value for language, value in bits.items() if language is not None}
        self._warn_of_forgetting(metrics)
        self.log(metrics)
        self.control: Any = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def _scores(self, language: str | None, held_out: HeldOut) -> tuple[Score, Score]:
        """Bits per byte and perplexity of one language."""
        named = {} if language is None else {"language": language}
        total = torch.zeros((), dtype=torch.float64, device=self.args.device)
        with torch.no_grad(), track("measuring", len(held_out.inputs)) as advance:
            for inputs, labels in self._shares(held_out):
                total += self.model_wrapped(input_ids=inputs, labels=labels, **named).double()
                advance(len(inputs) * self.args.world_size)
        nats = float(self.accelerator.reduce(total, "sum"))
        if not math.isfinite(nats):
            raise self._not_finite("the held-out loss")
        return scores_of(nats, held_out.tokens, held_out.bytes, self.watch.kind)

    def _warn_of_forgetting(self, metrics: Mapping[str, float]) -> None:
        """Tell when the first of two languages has become worse than it was at the start."""
        language = next(iter(self.watch.held_out))
        name = f"{BITS}_{language}"
        start = next((entry[name] for entry in self.state.log_history if name in entry), None)
        if language is not None and start is not None and metrics[name] > (1 + FORGETTING) * start:
            logger.warning(
                "the model forgets its first language: %s has %.3f bits per byte at step %d and had %.3f at the start; "
                "try a lower learning rate",
                language,
                metrics[name],
                self.state.global_step,
                start,
            )

    def _shares(self, held_out: HeldOut) -> Iterable[tuple[torch.Tensor, torch.Tensor]]:
        """This device's windows in batches of one size; places beyond the last window count nothing."""
        windows, devices, rank = len(held_out.inputs), self.args.world_size, self.args.process_index
        size = min(self.args.per_device_eval_batch_size, -(-windows // devices))
        for start in range(0, windows, size * devices):
            places = torch.arange(start + rank * size, start + (rank + 1) * size)
            inputs = torch.from_numpy(held_out.inputs)[places % windows]
            labels = torch.from_numpy(held_out.labels)[places % windows]
            labels[places >= windows] = IGNORED
            yield inputs.to(self.args.device), labels.to(self.args.device)

    def _determine_best_metric(self, metrics: dict[str, float], trial: Any) -> bool:
        """A better model than any before is kept at once, where the best one is asked for."""
        is_best: bool = super()._determine_best_metric(metrics, trial)
        self.control.should_save |= is_best and self.args.load_best_model_at_end
        return is_best

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        """Write, then seal; rotate only after that."""
        if self.control.should_training_stop and self.state.best_global_step != self.state.global_step:
            return  # out of patience: the result itself is written, and a run that went on from here would train on
        self._check_finite()
        folder = Path(self.args.output_dir)
        checkpoint = folder / f"checkpoint-{self.state.global_step}"
        try:
            if self.args.should_save and checkpoint.exists():
                drop_checkpoint(checkpoint)
            self.accelerator.wait_for_everyone()
            super()._save_checkpoint(model, trial)
            self.accelerator.wait_for_everyone()
            if self.args.should_save:
                (checkpoint / "training_args.bin").unlink(missing_ok=True)  # a pickle, and of no use here
                seal(checkpoint)
        except (OSError, SafetensorError, RuntimeError, OutputError) as error:
            if self.args.should_save:
                shutil.rmtree(checkpoint, ignore_errors=True)
            reason = getattr(error, "strerror", None) or first_line(error)
            raise OutputError(
                f"the checkpoint of step {self.state.global_step} could not be written ({reason}): {self._last_good()}"
            ) from error
        if self.args.should_save:
            self._rotate(folder)

    def _rotate(self, folder: Path) -> None:
        best = f"checkpoint-{self.state.best_global_step}" if self.state.best_global_step else None
        for old in sealed_checkpoints(folder)[:-CHECKPOINTS_KEPT]:
            if old.name != best:
                drop_checkpoint(old)

    def _check_finite(self) -> None:
        """Stop before numbers that are none are measured or kept; all devices stop together."""
        if float(self.accelerator.reduce(self._finite.float(), "sum")) < self.args.world_size:
            raise self._not_finite("the training loss")
        trained = (parameter for parameter in self.model.parameters() if parameter.requires_grad)
        if not all(bool(parameter.isfinite().all()) for parameter in trained):
            raise self._not_finite("a parameter")

    def _not_finite(self, what: str) -> TrainingError:
        rate = self._get_learning_rate() if self.lr_scheduler is not None else math.nan
        return TrainingError(
            f"{what} is no longer a number at step {self.state.global_step} (learning rate {rate:.1e}): "
            f"{self._last_good()}; try a lower learning rate or a longer warm-up"
        )

    def _last_good(self) -> str:
        found = sealed_checkpoints(Path(self.args.output_dir))
        return f"the last good checkpoint is {found[-1]}" if found else "there is no checkpoint yet"


def _ready(batch: Any) -> Any:
    """What `Sequences` gives is a batch already."""
    return batch
