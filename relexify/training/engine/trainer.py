"""The Trainer of a stage: batches in a fixed order, a loss without logits, sealed checkpoints, held-out scores.

Devices, gradient accumulation, precision, schedules and resuming are the Trainer's and accelerate's. `StageTrainer`
overrides these methods, and `SealedTrainer` makes sure that the installed version of transformers has them:

    create_optimizer        averages of the weights are part of its state
    get_decay_parameter_names   weight decay does not apply to the magnitudes of DoRA
    get_batch_samples       count the labels of a step for each objective
    training_step           no walks through all modules, which keep a fast GPU waiting; CUDA graphs
    compute_loss            the model returns its loss, summed
    evaluate                bits per byte and perplexity of held-out text
    floating_point_ops      not counted: it walks through all modules in every step
    _get_train_sampler      `Sequences` are in order already
    _clip_grad_norm         without a walk through all modules, on one device
    _determine_best_metric  save a new best model at once
    _save_checkpoint        check that parameters are finite; seal it, report a full disk (`sealed.py`)
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from statistics import fmean
from types import MappingProxyType
from typing import Any, ClassVar

import torch
from torch import nn
from torch.distributed.fsdp import FSDPModule
from torch.utils.data import Sampler, SequentialSampler
from transformers import PreTrainedModel, TrainerCallback, TrainingArguments

from relexify.errors import TrainingError
from relexify.pretrained.architecture import IGNORED
from relexify.pretrained.runtime.runnable import evaluating
from relexify.progress import track
from relexify.scoring import HeldOut, Score, scores_of
from relexify.storage.runs.checkpoints import sealed_checkpoints, write_checkpoint
from relexify.training.data.batches import Sequences
from relexify.training.data.texts import TrainingData
from relexify.training.engine.cuda_graph import CapturedPass
from relexify.training.engine.monitor import BITS, PERPLEXITY
from relexify.training.engine.optimisers.average import averaged_weights, keep_averages
from relexify.training.engine.optimisers.groups import decaying_parameters
from relexify.training.engine.sealed import SealedTrainer

__all__ = ["StageTrainer"]

FORGETTING = 0.03
"""By what share the score of the first of two languages may get worse before a warning."""
_COUNT = "number of labels"

logger = logging.getLogger(__name__)


class StageTrainer(SealedTrainer):
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
        snapshot_steps: The steps of this stage after which its model is kept there, each with its number in the whole
            run.

    Raises:
        TrainingError: The installed version of transformers lacks a method that is overridden here.
    """

    overridden: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **SealedTrainer.overridden,
        "create_optimizer": ("model",),
        "get_decay_parameter_names": ("model",),
        "get_batch_samples": ("epoch_iterator", "num_batches", "device"),
        "training_step": ("model", "inputs", "num_items_in_batch"),
        "compute_loss": ("model", "inputs", "return_outputs", "num_items_in_batch"),
        "floating_point_ops": ("inputs",),
        "_get_train_sampler": ("train_dataset",),
        "_clip_grad_norm": ("model",),
        "_determine_best_metric": ("metrics", "trial"),
    }
    checkpoints_kept = 2

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
        super().__init__(
            model=model,
            args=arguments,
            train_dataset=sequences,
            eval_dataset=sequences,  # required, but never read: see `evaluate`
            data_collator=lambda batch: batch,  # `Sequences` returns whole batches
            callbacks=callbacks,
            optimizer_cls_and_kwargs=optimiser,
        )
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
        """Create the optimiser, with averages of the weights in its state if they are scored and saved."""
        optimiser: torch.optim.Optimizer = super().create_optimizer(model)
        if self.is_averaged:
            keep_averages(optimiser)
        return optimiser

    def get_decay_parameter_names(self, model: nn.Module) -> list[str]:
        """Return the names of the parameters that weight decay applies to, for the optimiser of the Trainer."""
        return decaying_parameters(model)

    def _get_train_sampler(self, train_dataset: object = None) -> Sampler[int]:
        return SequentialSampler(self.train_dataset)

    def get_batch_samples(
        self, epoch_iterator: Iterator[Any], num_batches: int, device: torch.device
    ) -> tuple[list[Any], torch.Tensor]:
        """Return the parts of one step, and the number of labels for each objective, over all parts and devices."""
        parts = list(islice(epoch_iterator, num_batches))
        objectives = self.train_dataset.batches.objectives
        # Rows alternate between the objectives: [rows / objectives × objectives × positions].
        labels = [(part["labels"] != IGNORED).unflatten(0, (-1, objectives)) for part in parts]
        counts = [known.sum(dim=(0, 2)) for known in labels]  # [objectives] for each part
        total = torch.stack(counts).sum(dim=0) if counts else torch.zeros(objectives)
        # Without `non_blocking`, every step would wait until the GPU has finished the last.
        count = total.to(device, non_blocking=True)
        return parts, self.accelerator.reduce(count, "sum") if self.args.world_size > 1 else count

    def training_step(
        self, model: nn.Module, inputs: dict[str, torch.Tensor], num_items_in_batch: torch.Tensor
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
        return self._finish_evaluation(metrics)

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
        """Also save a new best model at once, if the best one is selected at the end."""
        is_best: bool = super()._determine_best_metric(metrics, trial)
        self.control.should_save |= is_best and self.args.load_best_model_at_end
        return is_best

    def _save_checkpoint(self, model: nn.Module, trial: object) -> None:
        self._check_finite()
        super()._save_checkpoint(model, trial)

    def _write_checkpoint(self, model: nn.Module, trial: object) -> None:
        self.accelerator.wait_for_everyone()
        with self._averaged():
            super()._write_checkpoint(model, trial)
        self.accelerator.wait_for_everyone()

    def _advice(self) -> str:
        return self._last_good()

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
