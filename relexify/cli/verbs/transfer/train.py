"""`relexify train`: continue the training of a model in its new language."""

from __future__ import annotations

import shlex
from dataclasses import fields
from typing import Annotated

import typer

from relexify.cli import options as shared
from relexify.cli.console import emit
from relexify.cli.options import PLAN, RUN, TEXT, apply_settings, option
from relexify.cli.progress import bars
from relexify.cli.summary import print_model_folder, print_next_steps, print_plan, print_summary
from relexify.training.options import OWN_PLAN, Training
from relexify.training.plan import PLANS

__all__ = ["train"]

FirstLanguage = Annotated[
    list[str] | None,
    option(
        "Text in the first language of a model with two, so that it is not forgotten: a quarter of the "
        "sequences (--set source_share=0.25) are taken from it, and both languages are scored. Repeatable.",
        TEXT,
    ),
]
PeakRate = Annotated[
    float | None,
    option("Peak learning rate; with Muon, that of inner matrices.  [default: derived from model and text]", PLAN),
]
_OTHERS = [name for name in PLANS if name != OWN_PLAN]
PlanName = Annotated[
    str,
    typer.Option(
        help=f"{OWN_PLAN} (default), {', '.join(_OTHERS[:-1])} or {_OTHERS[-1]}; see docs/training.md.",
        rich_help_panel=PLAN,
        show_default=False,
    ),
]
AddHead = Annotated[bool, option("Add a language-modelling head to a model without one.", RUN, "--add-head")]
ReportTo = Annotated[
    list[str] | None,
    option(
        "Where to log the training: tensorboard, wandb, trackio or none (default: tensorboard, if it is installed). "
        "Repeatable.",
        RUN,
    ),
]


def train(
    model: shared.Model,
    output: shared.OutputFolder,
    corpus: shared.Corpus,
    held_out: shared.HeldOut = None,
    source_corpus: FirstLanguage = None,
    source_held_out: shared.SourceHeldOut = None,
    steps: shared.Steps = Training.steps,
    batch: shared.Batch = Training.batch,
    length: shared.Length = Training.length,
    learning_rate: PeakRate = None,
    plan: PlanName = Training.plan,
    patience: shared.Patience = None,
    add_head: AddHead = False,
    report_to: ReportTo = None,
    seed: shared.Seed = 0,
    overwrite: shared.Overwrite = False,
    dry_run: shared.DryRun = False,
    settings: shared.Settings = None,
) -> None:
    """Continue the training of MODEL on text, and write it to OUTPUT; it is scored on held-out text along the way.

    Decoders are trained to predict the next token, masked language models the masked ones. Checkpoints are kept in
    OUTPUT.training: if interrupted, even by kill -9, run the same command again to resume (on a CPU, with bit-identical
    results).
    Several GPUs: torchrun --nproc-per-node 4 -m relexify train …, or accelerate launch -m relexify train …

    Example: relexify train smollm2-swahili smollm2-swahili-trained --corpus swahili.txt --steps 5000

    Example: relexify train bert-swahili bert-swahili-trained --corpus swahili.txt --set evaluate_every=100

    Example: relexify train gpt2-both gpt2-both-trained --corpus swahili.txt --source-corpus english.txt
    """
    from relexify.training.checks import prepare_training

    options = Training(
        steps=steps,
        batch=batch,
        length=length,
        learning_rate=learning_rate,
        plan=plan,  # type: ignore[arg-type]  # `check_training` validates it
        patience=patience,
        source_corpus=source_corpus or None,
        source_held_out=source_held_out or None,
        # As `plan`, it is validated there.
        report_to=tuple(name for name in report_to if name != "none") if report_to else None,  # type: ignore[misc]
        seed=seed,
    )
    options = apply_settings("training", options, settings)
    languages = ((corpus, held_out), (options.source_corpus, options.source_held_out))
    # `train` validates this again, but of the folder that it trains, which is a copy if a head is added.
    work = prepare_training(options, output, inputs=(model,), texts=languages, overwrite=overwrite)
    shared.check_texts(*languages)
    shared.say_loading()
    from relexify.grafting import check_own_tokenizer
    from relexify.pretrained.loading import with_added_head
    from relexify.reports.next_steps import after_training
    from relexify.storage.notes import read_notes
    from relexify.systems.transfer.assessment.summary import compare_with_transfer, recall_poor_start
    from relexify.systems.transfer.other_text import warn_about_other_text
    from relexify.training.dry_run import planned_training
    from relexify.training.results.summary import judge_training, summarise_training
    from relexify.training.run import train as train_model
    from relexify.training.trainable import check_head

    if add_head:
        check_own_tokenizer(model)  # here, because the copy with the head, which is trained, has no mixture
    else:
        check_head(model)
    warn_about_other_text(model, corpus)
    if dry_run:
        work.check()
        rows = planned_training(model, output, corpus, options, held_out=held_out or None, add_head=add_head)
        measuring = [] if options.stages else [("to measure its time", _measuring_command(model, options))]
        print_plan([*rows, *measuring])
        return
    with bars():
        result = train_model(
            with_added_head(model) if add_head else model,
            output,
            corpus,
            options,
            held_out=held_out or None,
            overwrite=overwrite,
        )
    notes = read_notes(result.output)
    recalled = [*recall_poor_start(notes), *compare_with_transfer(notes, result.curve)]
    print_summary([*summarise_training(result), *recalled])
    print_model_folder(result.output)
    print_next_steps(after_training(result.output, notes, result.curve))
    verdict = judge_training(result.curve, result.selected, new_text_steps=result.new_text_steps)
    emit(training=result, verdict=verdict)


def _measuring_command(model: str, options: Training) -> str:
    """Return the command that measures some steps of a training without stages of its own."""
    from relexify.reports.transfer_command import as_settings, repeated_option

    command, named = ["relexify", "estimate", model], ("steps", "batch", "length", "plan")
    for name in named:
        command += [f"--{name}", str(getattr(options, name))]
    elsewhere = (*named, "source_corpus", "source_held_out")  # random tokens are measured
    given = ((entry.name, getattr(options, entry.name), entry.default) for entry in fields(options))
    changed = {name: value for name, value, usual in given if name not in elsewhere and value != usual}
    return shlex.join([*command, *repeated_option("--set", list(as_settings(changed))), "--measure"])
