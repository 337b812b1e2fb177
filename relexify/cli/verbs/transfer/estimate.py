"""`relexify estimate`: what a training costs before it is started."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from relexify.cli.console import emit
from relexify.cli.options import PLAN, RUN, Batch, Length, Model, Settings, Steps, apply_settings, option, say_loading
from relexify.cli.progress import bars
from relexify.cli.summary import print_summary
from relexify.errors import InputError
from relexify.progress import count_of, format_duration
from relexify.steps import ResultTable
from relexify.training.cost.hardware import GPUS, choose_gpus
from relexify.training.options import Training
from relexify.training.plan import PLANS, plan_stages

if TYPE_CHECKING:
    from relexify.training.cost.estimate import Estimate
    from relexify.training.cost.measuring import Measured

__all__ = ["estimate"]

HARDWARE = "Hardware"


def estimate(
    model: Model,
    steps: Steps = Training.steps,
    tokens: Annotated[float | None, option("Tokens to train on, such as 2e9, instead of --steps.", PLAN)] = None,
    batch: Batch = Training.batch,
    length: Length = Training.length,
    plan: Annotated[str, typer.Option(help=f"One of {', '.join(PLANS)}.", rich_help_panel=PLAN)] = Training.plan,
    gpu: Annotated[str, typer.Option(help=f"One of {', '.join(GPUS)}.", rich_help_panel=HARDWARE)] = "h200",
    gpus: Annotated[
        int | None,
        typer.Option(help="Number of GPUs (default: the fewest that suffice).", rich_help_panel=HARDWARE),
    ] = None,
    measure: Annotated[
        bool,
        option(
            "Also measure a few steps on this machine, on its GPU if it has one; minutes on a CPU.", RUN, "--measure"
        ),
    ] = False,
    settings: Settings = None,
) -> None:
    """Estimate the GPUs, memory and hours that training MODEL takes; a folder with config.json alone suffices.

    The first row is the training as requested, the others take less memory. Speed is estimated from those that were
    measured on one H200, with the shapes of 135 million and 1.7 billion parameters; communication between GPUs and
    scoring are not counted.

    Example: relexify estimate meta-llama/Llama-3.1-8B --tokens 2e9 --gpu h100

    Example: relexify estimate gpt2-swahili --steps 5000 --measure
    """
    # `check_training` validates the plan.
    options = Training(steps=steps, batch=batch, length=length, plan=plan)  # type: ignore[arg-type]
    options = apply_settings("training", options, settings)
    if tokens is not None:
        if not 1 <= tokens < 1e18:
            raise InputError(f"--tokens {tokens:g} is not possible: give a number such as 2e9")
        if options.stages:
            raise InputError("--tokens sets the number of steps, but the stages have their own: leave out one of them")
        options = replace(options, steps=math.ceil(tokens / max(1, options.tokens_per_step)))
    plan_stages(options)
    choose_gpus(gpu, gpus)
    say_loading()
    from relexify.training.cost.estimate import estimate as estimate_costs

    estimates = estimate_costs(model, options, gpu=gpu, gpus=gpus)
    first = estimates[0]
    count = f"{first.parameters / 1e6:,.2f} million"
    if first.parameters >= 1e9:
        count = f"{first.parameters / 1e9:,.2f} billion"
    in_steps = count_of(options.steps, "step")
    about = f"{count} parameters, {first.tokens:,} tokens in {in_steps} of {options.batch} x {options.length}."
    title = f"Estimates for {gpu.upper()} GPUs, at {first.utilisation:.0%} of their peak"
    print_summary([about, ResultTable(title, [_HEADER, *map(_estimate_row, estimates)])])
    measured = None
    if measure:
        from relexify.training.cost.measuring import measure_training

        with bars():
            measured = measure_training(model, replace(options, micro_batch=first.micro_batch))
        # One GPU orthogonalises all matrices once, whatever the number of GPUs that is estimated.
        _print_measured(measured, options.length, estimate_costs(model, options, gpu=gpu, gpus=1)[0], gpu)
    else:
        print_summary(["To measure the time on this machine, add --measure: it trains a few steps (minutes on a CPU)."])
    emit(estimates=estimates, measured=measured)


_HEADER = [
    "training", "GPUs", "micro_batch", "GB per GPU", "weights", "gradients", "optimiser", "activations", "tokens/s",
    "duration", "GPU hours",
]  # fmt: skip


def _estimate_row(estimate: Estimate) -> list[str]:
    changes = " ".join(f"--set {name}={str(value).lower()}" for name, value in estimate.changes.items())
    memory = estimate.memory
    parts = (memory.total, memory.weights, memory.gradients, memory.optimiser, memory.activations)
    sizes = [f"{size / 1e9:,.1f}" for size in parts]
    if not estimate.fits:
        return [changes or "as requested", "does not fit", str(estimate.micro_batch), *sizes, "–", "–", "–"]
    return [
        changes or "as requested",
        f"{estimate.gpus}, FSDP" if estimate.is_sharded else str(estimate.gpus),
        str(estimate.micro_batch),
        *sizes,
        f"{estimate.tokens_per_second:,.0f}",
        format_duration(estimate.seconds),
        f"{estimate.gpus * estimate.seconds / 3600:,.2f}",
    ]


def _print_measured(measured: Measured, length: int, estimated: Estimate, gpu: str) -> None:
    """Print how fast this machine is, how long the training takes on it, and how that compares with the estimates.

    Args:
        measured: The measurement.
        length: Tokens per sequence.
        estimated: The estimate for one GPU.
        gpu: Its name.
    """
    from relexify.training.cost.here import peak_share

    on_gpu = measured.memory is not None
    reached = estimated.operations / estimated.tokens * measured.tokens_per_second / measured.peak
    expected = peak_share(estimated.utilisation, on_gpu=on_gpu)
    seconds = estimated.tokens / measured.tokens_per_second
    peak = _speed(measured.peak)
    steps = count_of(measured.steps, "step")
    text = (
        f"Measured on {measured.device if on_gpu else 'the CPU'} of this machine, in {steps} of "
        f"{measured.batch} x {length} with random weights and tokens: {measured.tokens_per_second:,.0f} tokens/s, so "
        f"that the training takes about {format_duration(seconds)} here, without scoring. That uses {reached:.0%} of "
        f"the speed of a large matrix product ({peak}); the estimate of relexify train assumes {expected:.0%}, which "
        f"would take {format_duration(seconds * reached / expected)}. "
    )
    if measured.memory is not None:
        text += f"Peak memory: {measured.memory / 1e9:,.1f} GB, estimated {estimated.memory.total / 1e9:,.1f} GB. "
    ratio = estimated.tokens_per_second / measured.tokens_per_second
    fast = f"{ratio:,.{int(ratio < 10)}f} times as fast"
    print_summary([f"{text}One {gpu.upper()}, as in the table, is estimated to be {fast}."])


def _speed(operations: float) -> str:
    """Return operations per second in a unit in which they are readable, on a CPU and on a GPU."""
    return f"{operations / 1e12:,.0f} TFLOP/s" if operations >= 1e13 else f"{operations / 1e9:,.1f} GFLOP/s"
