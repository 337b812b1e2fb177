"""The Trainer of a stage: batches in a fixed order, a loss without logits, sealed checkpoints, held-out scores.

Devices, gradient accumulation, precision, schedules and resuming are the Trainer's and accelerate's. `StageTrainer`
overrides these methods, and `_check_trainer` makes sure that the installed version of transformers has them:

    create_optimizer        averages of the weights are part of its state
    get_batch_samples       count the labels of a step for each objective
    training_step           no walks through all modules, which keep a fast GPU waiting; CUDA graphs
    compute_loss            the model returns its loss, summed
    evaluate                bits per byte and perplexity of held-out text
    floating_point_ops      not counted: it walks through all modules in every step
    _get_train_sampler      `Sequences` are in order already
    _clip_grad_norm         without a walk through all modules, on one device
    _determine_best_metric  save a new best model at once
    _save_checkpoint        seal checkpoints, report a full disk, keep the last two and the best
"""

from __future__ import annotations

import inspect
import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from statistics import fmean
from types import MappingProxyType
from typing import Any

import torch
import transformers
from torch import nn
from torch.distributed.fsdp import FSDPModule
from torch.utils.data import Sampler, SequentialSampler
from transformers import (
    PreTrainedModel,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from relexify.errors import TrainingError
from relexify.pretrained.architecture import IGNORED
from relexify.pretrained.runnable import evaluating
from relexify.progress import Advance, estimate, track
from relexify.scoring import HeldOut, Score, scores_of
from relexify.storage.checkpoints import sealed_checkpoints, write_checkpoint
from relexify.training.data.batches import Sequences
from relexify.training.engine.average import averaged_weights, keep_averages
from relexify.training.engine.cuda_graph import CapturedPass
from relexify.training.job import TrainingData

__all__ = ["BITS", "PERPLEXITY", "StageMonitor", "StageTrainer"]

BITS, PERPLEXITY = "eval_bits_per_byte", "eval_perplexity"
CHECKPOINTS_KEPT = 2
FORGETTING = 0.03
"""By what share the score of the first of two languages may get worse before a warning."""
LEAST_SECONDS_BETWEEN_CHECKPOINTS = 15
CHECKPOINT_SHARE = 0.03
"""Share of the time that checkpoints may take, if their interval is not given."""
WARM_STEPS = 5
"""Steps on a GPU that do not count for the speed, because of compilation and first allocations; on a CPU, one."""
ANNOUNCED_FROM = 60
"""Seconds from which on the time that a training will take is announced."""
LONG_TRAINING = 24 * 3600
"""Seconds from which on the announcement says how to take less."""
_COUNT = "number of labels"

_OVERRIDDEN = {
    "create_optimizer": ("model",),
    "get_batch_samples": ("epoch_iterator", "num_batches", "device"),
    "training_step": ("model", "inputs", "num_items_in_batch"),
    "compute_loss": ("model", "inputs", "return_outputs", "num_items_in_batch"),
    "evaluate": ("eval_dataset", "ignore_keys", "metric_key_prefix"),
    "floating_point_ops": ("inputs",),
    "_get_train_sampler": ("train_dataset",),
    "_clip_grad_norm": ("model",),
    "_determine_best_metric": ("metrics", "trial"),
    "_save_checkpoint": ("model", "trial"),
}

logger = logging.getLogger(__name__)


class StageMonitor(TrainerCallback):  # type: ignore[misc]
    """Decides when to score and to save, reports progress, measures the speed, and estimates the time that is left.

    Args:
        evaluated: Steps after which the model is scored, besides the last one.
        save_every: Steps between two checkpoints; if None, as often as `CHECKPOINT_SHARE` allows.
        advance: Called with the number of finished steps, and with loss, score and speed.
        tokens_per_step: Tokens seen in one step.
        first_step: Number of steps of the stages before.
        later_steps: Number of steps of the stages after.
    """

    def __init__(
        self,
        evaluated: frozenset[int],
        save_every: int | None,
        advance: Advance,
        *,
        tokens_per_step: int,
        first_step: int = 0,
        later_steps: int = 0,
    ) -> None:
        self.evaluated, self.save_every, self.advance = evaluated, save_every, advance
        self.tokens_per_step, self.first_step, self.later_steps = tokens_per_step, first_step, later_steps
        self.reported = 0  # steps
        self.saved, self.saving_took, self.step_ended = time.monotonic(), 0.0, time.monotonic()
        self.scoring_took = 0.0
        self.last_step: float | None = None
        self.was_interrupted = False  # by scoring or saving, after the last step
        self.steps_seen, self.steps_timed, self.seconds_timed = 0, 0, 0.0
        self.loss: float | None = None
        self.bits: dict[str, float] = {}

    @property
    def seconds_per_step(self) -> float | None:
        """Mean time of a step, without scoring and saving; None if there were too few steps."""
        return self.seconds_timed / self.steps_timed if self.seconds_timed else None

    @property
    def status(self) -> str:
        """The last loss, the last score and the speed, as far as they are known."""
        parts = []
        if self.loss is not None:
            parts.append(f"loss {self.loss:.3f}")
        if self.bits:
            parts.append(self._scores(3))
        if self.seconds_per_step:
            parts.append(f"{self.tokens_per_step / self.seconds_per_step:,.0f} tokens/s")
        return ", ".join(parts)

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **rest: Any
    ) -> None:
        """Find the best checkpoint, and set the model to training, which `StageTrainer.training_step` does not."""
        best = Path(args.output_dir) / f"checkpoint-{state.best_global_step}"
        if best.exists():  # the folder may have been moved since the checkpoint was written
            state.best_model_checkpoint = str(best)
        rest["model"].train()
        self.step_ended = time.monotonic()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **rest: Any) -> None:
        """Report the step, and request scoring and saving when they are due."""
        step = state.global_step
        now = time.monotonic()
        warm_steps = WARM_STEPS if args.device.type == "cuda" else 1
        if self.last_step is not None and self.steps_seen >= warm_steps and not self.was_interrupted:
            self.steps_timed += 1
            self.seconds_timed += now - self.last_step
            if self.steps_timed == 1:
                self._announce(state.max_steps - step, step, args.device.type)
        self.advance(step - self.reported, self.status)
        self.reported = step
        self.last_step = now
        self.steps_seen += 1
        if step in self.evaluated or step >= state.max_steps:
            control.should_evaluate = True
        # After the last step the result itself is written.
        control.should_save = step < state.max_steps and self._is_save_due(step, args.world_size)
        control.should_log = control.should_log or control.should_evaluate or control.should_save
        self.was_interrupted = control.should_evaluate or control.should_save
        self.step_ended = time.monotonic()

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: Mapping[str, float] | None = None,
        **rest: Any,
    ) -> None:
        """Remember loss and score for the status, and log a new score."""
        found = logs or {}
        self.loss = found.get("loss", self.loss)
        if BITS in found:
            languages = {name.removeprefix(f"{BITS}_"): found[name] for name in found if name.startswith(f"{BITS}_")}
            self.bits = {**languages, "mean": found[BITS]} if languages else {"": found[BITS]}
            loss = "" if self.loss is None else f", loss {self.loss:.3f}"
            logger.info("step %d: %s%s", self.first_step + state.global_step, self._scores(4), loss)

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **rest: Any) -> None:
        """Measure how long scoring took."""
        self.scoring_took = time.monotonic() - self.step_ended

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **rest: Any) -> None:
        """Measure how long saving took."""
        self.saved = time.monotonic()
        self.saving_took = self.saved - self.step_ended

    def _scores(self, digits: int) -> str:
        """Return the last score; with two languages that of each, and their mean, which patience and selection use."""
        return ", ".join(f"{name} {bits:.{digits}f}".strip() for name, bits in self.bits.items()) + " bits per byte"

    def _announce(self, left: int, step: int, device: str) -> None:
        """Log how long the rest of the training will take, if that is long, and what would make it shorter."""
        seconds_per_step = self.seconds_per_step or 0.0
        steps, scores = left + self.later_steps, sum(later > step for later in self.evaluated)
        seconds = steps * seconds_per_step + scores * self.scoring_took
        if seconds < ANNOUNCED_FROM:
            return
        speed = f"{self.tokens_per_step / seconds_per_step:,.0f} tokens/s"
        where = "this CPU" if device == "cpu" else "this machine"
        advice = ""
        if seconds > LONG_TRAINING:
            advice = "; consider fewer steps, a smaller batch or shorter sequences" + ", or a GPU" * (device == "cpu")
        logger.info("the remaining %d steps take %s on %s (%s)%s", steps, estimate(seconds), where, speed, advice)

    def _is_save_due(self, step: int, devices: int) -> bool:
        if self.save_every is not None:
            return step % self.save_every == 0
        # Several processes must save together and have several clocks, so they are always given `save_every`.
        wait = max(LEAST_SECONDS_BETWEEN_CHECKPOINTS, self.saving_took / CHECKPOINT_SHARE)
        return devices == 1 and time.monotonic() - self.saved > wait


class StageTrainer(Trainer):  # type: ignore[misc]
    """Trains one stage of a model whose forward returns the summed loss (see `loss_forward`).

    Args:
        model: The model.
        arguments: As `stage_arguments` returns them.
        sequences: The sequences of the stage.
        data: What they come from, with the held-out text.
        callbacks: Callbacks, with a `StageMonitor` at the end.
        optimiser: Class and options of an optimiser; None for the Trainer's.
        captured: Record forward and backward pass as a CUDA graph.
        is_averaged: Whether averages of the weights are scored and saved, which `WeightAverage` keeps.
        snapshots: The folder for models of single steps.
        snapshot_steps: The step of the whole run, for each step of this stage after which its model is kept there.

    Raises:
        TrainingError: The installed version of transformers lacks a method that is overridden here.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        arguments: TrainingArguments,
        sequences: Sequences,
        data: TrainingData,
        callbacks: list[TrainerCallback],
        *,
        optimiser: tuple[type[torch.optim.Optimizer], dict[str, Any]] | None = None,
        captured: bool = False,
        is_averaged: bool = False,
        snapshots: Path | None = None,
        snapshot_steps: Mapping[int, int] = MappingProxyType({}),
    ) -> None:
        _check_trainer()
        super().__init__(
            model=model,
            args=arguments,
            train_dataset=sequences,
            eval_dataset=sequences,  # required, but never read: see `evaluate`
            data_collator=lambda batch: batch,  # `Sequences` returns whole batches
            callbacks=callbacks,
            optimizer_cls_and_kwargs=optimiser,
        )
        self.remove_callback(PrinterCallback)
        self.data, self.is_averaged = data, is_averaged
        self.snapshots, self.snapshot_steps = snapshots, snapshot_steps
        self.model_accepts_loss_kwargs = True  # the loss below is already that of the whole accumulated batch
        # On the device, so that no step waits for it; read by `_check_finite`.
        self._finite = torch.ones((), dtype=torch.bool, device=self.args.device)
        self._pass: Callable[[Mapping[str, torch.Tensor]], torch.Tensor] = self._forward_and_backward
        if captured:
            trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
            parts = self.args.gradient_accumulation_steps
            self._pass = CapturedPass(self._forward_and_backward, trained, accumulates=parts > 1)

    def create_optimizer(self, model: nn.Module | None = None) -> torch.optim.Optimizer:
        """Create the optimiser, with averages of the weights in its state if they are to be kept."""
        optimiser: torch.optim.Optimizer = super().create_optimizer(model)
        if self.is_averaged:
            keep_averages(optimiser)
        return optimiser

    def _get_train_sampler(self, train_dataset: object = None) -> Sampler[int]:
        return SequentialSampler(self.train_dataset)

    def get_batch_samples(
        self, epoch_iterator: Iterator[Any], num_batches: int, device: torch.device
    ) -> tuple[list[Any], torch.Tensor]:
        """Return the parts of one step, and the number of labels for each objective, over all parts and devices."""
        parts = list(islice(epoch_iterator, num_batches))
        turns = self.train_dataset.batches.objectives
        labels = [(part["labels"] != IGNORED).unflatten(0, (-1, turns)) for part in parts]
        counts = [known.sum(dim=(0, 2)) for known in labels]
        total = torch.stack(counts).sum(dim=0) if counts else torch.zeros(turns)
        # Without `non_blocking`, every step would wait until the GPU has finished the last.
        count = total.to(device, non_blocking=True)
        return parts, self.accelerator.reduce(count, "sum") if self.args.world_size > 1 else count

    def training_step(
        self, model: nn.Module, inputs: dict[str, torch.Tensor], num_items_in_batch: Any = None
    ) -> torch.Tensor:
        """Run forward and backward pass of one part."""
        return self._pass({**self._prepare_inputs(inputs), _COUNT: num_items_in_batch})

    def _forward_and_backward(self, arrays: Mapping[str, torch.Tensor]) -> torch.Tensor:
        inputs = {name: array for name, array in arrays.items() if name != _COUNT}
        loss = self.compute_loss(self.model_wrapped, inputs, num_items_in_batch=arrays[_COUNT])
        self.accelerator.backward(loss)
        return loss.detach()

    def _clip_grad_norm(self, model: nn.Module) -> Any:
        if self.args.world_size > 1:
            return super()._clip_grad_norm(model)
        groups = self.optimizer.param_groups
        trained = [parameter for group in groups for parameter in group["params"]]
        return torch.nn.utils.clip_grad_norm_(trained, self.args.max_grad_norm)

    def floating_point_ops(self, inputs: object) -> int:
        """Return 0: not counted."""
        return 0

    def compute_loss(
        self, model: nn.Module, inputs: Mapping[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> torch.Tensor:
        """Return this part's share of the step's mean loss per label, summed over the objectives."""
        labels = num_items_in_batch.clamp(min=1)  # by chance, a few short sequences may have no masked token
        # Times the number of devices, because their gradients are averaged.
        loss: torch.Tensor = (model(**inputs) * self.args.world_size / labels).sum()
        self._finite &= loss.detach().isfinite()
        return loss

    def evaluate(
        self, eval_dataset: object = None, ignore_keys: object = None, metric_key_prefix: str = "eval"
    ) -> dict[str, float]:
        """Score held-out text, each device its share of the windows; the score of two languages is their mean."""
        self._check_finite()
        with evaluating(self.model_wrapped), self._averaged():
            scores = {language: self._scores(language, text) for language, text in self.data.held_out.items()}
            self._keep_snapshot()
        bits = {language: pair[0].value for language, pair in scores.items()}
        logarithms = [math.log(pair[1].value) for pair in scores.values()]
        metrics = {BITS: fmean(bits.values()), PERPLEXITY: math.exp(fmean(logarithms))}
        metrics |= {f"{BITS}_{language}": value for language, value in bits.items() if language is not None}
        self._warn_of_forgetting(metrics)
        self.log(metrics)
        self.control: Any = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def _keep_snapshot(self) -> None:
        """Keep the model that was just scored, without the state of the optimiser, if this is a step to keep."""
        step, folder = self.snapshot_steps.get(self.state.global_step), self.snapshots
        if folder is None or step is None:
            return
        write_checkpoint(
            folder,
            step,
            lambda: self.save_model(str(folder / f"checkpoint-{step}"), _internal_call=True),
            keep=step,  # all of them
            best=None,
            advice=self._last_good(),
            is_main=self.args.should_save,
        )

    @contextmanager
    def _averaged(self) -> Iterator[None]:
        """Put the averages of the weights into the model while something is scored or saved, if there are any."""
        if not self.is_averaged:
            yield
            return
        with averaged_weights(self.optimizer):
            yield
        # Without a backward pass, FSDP 2 keeps embedding, last norm and head gathered: the next step would use those of
        # the averages.
        for module in self.model_wrapped.modules():
            if isinstance(module, FSDPModule):
                module.reshard()

    def _scores(self, language: str | None, held_out: HeldOut) -> tuple[Score, Score]:
        """Return bits per byte and perplexity of one language."""
        named = {"language": language} if language is not None and self.data.takes_language else {}
        total = torch.zeros((), dtype=torch.float64, device=self.args.device)
        with torch.no_grad(), track("scoring", len(held_out.inputs)) as advance:
            for inputs, labels in self._shares(held_out):
                total += self.model_wrapped(input_ids=inputs, labels=labels, **named).double()
                advance(len(inputs) * self.args.world_size)
        nats = float(self.accelerator.reduce(total, "sum"))
        if not math.isfinite(nats):
            raise self._not_finite("the held-out loss")
        return scores_of(nats, held_out.tokens, held_out.bytes, self.data.kind)

    def _warn_of_forgetting(self, metrics: Mapping[str, float]) -> None:
        """Warn if the first of two languages has become worse than it was at the start."""
        language = next(iter(self.data.held_out))
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
        """Yield the windows of this device in batches of one size; positions beyond the last window have no labels."""
        windows, devices, rank = len(held_out.inputs), self.args.world_size, self.args.process_index
        size = min(self.args.per_device_eval_batch_size, -(-windows // devices))
        for start in range(0, windows, size * devices):
            rows = torch.arange(start + rank * size, start + (rank + 1) * size)
            inputs = torch.from_numpy(held_out.inputs)[rows % windows]
            labels = torch.from_numpy(held_out.labels)[rows % windows]
            labels[rows >= windows] = IGNORED
            yield inputs.to(self.args.device), labels.to(self.args.device)

    def _determine_best_metric(self, metrics: dict[str, float], trial: object) -> bool:
        """Also save a new best model at once, if the best one is to be selected."""
        is_best: bool = super()._determine_best_metric(metrics, trial)
        self.control.should_save |= is_best and self.args.load_best_model_at_end
        return is_best

    def _save_checkpoint(self, model: nn.Module, trial: object) -> None:
        """Write and seal a checkpoint, and only then remove older ones."""
        if self.control.should_training_stop and self.state.best_global_step != self.state.global_step:
            return  # out of patience: the result is written next, and a run resumed from here would train on
        self._check_finite()

        def write() -> None:
            self.accelerator.wait_for_everyone()
            with self._averaged():
                super(StageTrainer, self)._save_checkpoint(model, trial)
            self.accelerator.wait_for_everyone()

        write_checkpoint(
            Path(self.args.output_dir),
            self.state.global_step,
            write,
            keep=CHECKPOINTS_KEPT,
            best=self.state.best_global_step,
            advice=self._last_good(),
            is_main=self.args.should_save,
        )

    def _check_finite(self) -> None:
        """Raise before NaN or infinite parameters are scored or saved; all devices raise together."""
        if float(self.accelerator.reduce(self._finite.float(), "sum")) < self.args.world_size:
            raise self._not_finite("the training loss")
        trained = (parameter for parameter in self.model.parameters() if parameter.requires_grad)
        if not all(bool(parameter.isfinite().all()) for parameter in trained):
            raise self._not_finite("a parameter")

    def _not_finite(self, what: str) -> TrainingError:
        rate = self._get_learning_rate() if self.lr_scheduler is not None else math.nan
        return TrainingError(
            f"{what} is NaN or infinite at step {self.state.global_step} (learning rate {rate:.1e}): "
            f"{self._last_good()}; try a lower learning rate or a longer warm-up"
        )

    def _last_good(self) -> str:
        found = sealed_checkpoints(Path(self.args.output_dir))
        return f"the last good checkpoint is {found[-1]}" if found else "there is no checkpoint yet"


def _check_trainer() -> None:
    """Make sure that the methods that `StageTrainer` overrides exist, with the same parameters.

    Raises:
        TrainingError: They do not.
    """
    for name, expected in _OVERRIDDEN.items():
        method = getattr(Trainer, name, None)
        found = () if method is None else tuple(inspect.signature(method).parameters)
        if method is None or not set(expected) <= set(found):
            raise TrainingError(
                f"transformers {transformers.__version__} has no Trainer.{name}({', '.join(expected)}), on which "
                "relexify's training relies: install a version that has it, such as 5.22"
            )
