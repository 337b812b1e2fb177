"""What the report of a model says, from the files of its folder alone."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import Any

from relexify.mixture import MIXTURE_FILE, Mixture
from relexify.pretrained.files.embedding import read_embedding
from relexify.progress import count_of
from relexify.reports.command_line import source_title
from relexify.reports.html.atlas import build_atlas
from relexify.reports.html.curves import draw_curves
from relexify.reports.html.elements import (
    commands,
    definition_list,
    dots,
    figures,
    hint,
    notice,
    table,
    with_whole_options,
)
from relexify.reports.html.origins import show_origins
from relexify.reports.html.page import Section, page_file, render
from relexify.reports.next_steps import NextStep, after_training, after_transfer
from relexify.reports.tables import measured_rows
from relexify.scoring import WINDOW
from relexify.steps import STEPS, ModelChange, changes_of
from relexify.storage.notes import Notes, read_notes, recorded_command
from relexify.systems.transfer.assessment.samples import SegmentedLine, samples_of
from relexify.systems.transfer.assessment.start import BASELINES, Start, start_of
from relexify.systems.transfer.assessment.summary import (
    compare_with_transfer,
    explain_sample,
    recall_poor_start,
)
from relexify.systems.transfer.assessment.verdict import alignment_hits, judge
from relexify.training.results.curve import Curve
from relexify.training.results.result import CURVE_FILE, new_text_steps, selected_step
from relexify.training.results.summary import LEAST_TRAINING_GAIN, curve_table, judge_training

__all__ = ["render_model"]


def render_model(folder: Path) -> str:
    """Return the report of the model in a folder, trained or not, as a page."""
    notes = read_notes(folder)
    command = recorded_command(notes)
    curve = Curve.load(folder / CURVE_FILE) if (folder / CURVE_FILE).is_file() else None
    mixture = Mixture.load(folder / MIXTURE_FILE) if (folder / MIXTURE_FILE).is_file() else None
    atlas = build_atlas(mixture, read_embedding(folder)) if mixture is not None else None
    start, changes = start_of(notes), changes_of(notes)
    steps = _next_steps(folder, notes, command, curve)
    sections = [
        Section("summary", "Summary", _summary(notes, start, curve, steps)),
        Section(
            "next",
            "Next steps",
            "".join(commands(step.sentence(), step.commands) for step in steps),
        ),
        Section("sentences", "The same sentences under both tokenizers", _sentences(samples_of(notes))),
        Section("training", "Training", _training(notes, curve)),
        Section("further", "Further scores", _further_scores(changes)),
        Section("scores", "Scores before training", _scores(notes, start, is_trained=curve is not None)),
        Section("lengths", "Length of the text", _lengths(start)),
        Section(
            "origins", "Where the embeddings come from", show_origins(mixture, start) if mixture is not None else ""
        ),
        Section("atlas", "Token atlas", page_file("atlas.html") if atlas is not None else ""),
        Section("evidence", "Evidence", _evidence(notes)),
        Section("facts", "How it was made", _facts(folder, notes, command)),
    ]
    subtitle = "A model written by relexify"
    if changes:
        begun = source_title(command) or notes.get("trained_from")  # neither is known if a recipe began with training
        subtitle = f"{begun}, {changes[0].title}" if begun else f"A model {changes[0].title}"
    if curve is not None:
        subtitle += f", trained for {count_of(curve.last.step, 'step')}"
    return render(folder.resolve().name, subtitle, sections, data=atlas.pack() if atlas is not None else b"")


def _summary(notes: Notes, start: Start | None, curve: Curve | None, steps: Sequence[NextStep]) -> str:
    advice = ", then ".join(step.action for step in steps[:2])  # the next section has their commands
    if curve is None:
        shown = "" if start is None else _transfer_verdict(start, advice=advice)
    else:
        verdict = judge_training(curve, selected_step(notes, curve), new_text_steps=new_text_steps(notes))
        kind = {"worse": "poor", "overfitted": "open", "unstable": "open", "short": "open"}.get(verdict.outcome, "good")
        if curve.first.bits_per_byte - curve.best.bits_per_byte < LEAST_TRAINING_GAIN and kind == "good":
            kind = "open"  # nothing was gained at any step
        shown = notice(kind, verdict.headline, verdict.details, advice=advice)
        if recalled := recall_poor_start(notes):
            shown += notice("poor", recalled[0], recalled[1:])
    shown += figures(_key_figures(notes, start, curve))
    if prompt := notes.get("system_prompt"):
        # After the numbers, since it is not about how good the model is.
        remedy = "Pass a system message in the target language, or edit chat_template.jinja."
        headline = "Chats begin with a system prompt in the language of the source model."
        shown += notice("note", headline, (f"It is: “{prompt}”.", remedy))
    return shown


def _transfer_verdict(start: Start, *, advice: str = "") -> str:
    """Return the verdict on the transfer that the model comes from."""
    verdict = judge(start)
    return notice(verdict.start, verdict.headline, (verdict.finding, *verdict.details), advice=advice)


def _key_figures(notes: Notes, start: Start | None, curve: Curve | None) -> list[tuple[str, str, str]]:
    """Return the numbers that the verdict rests on, each with its name and what to compare it with."""
    entries = []
    if curve is not None:
        for language, part in curve.by_language.items():
            kept = part.at(selected_step(notes, curve))
            of_language = f" ({language})" if language else ""
            name = f"bits per byte{of_language} at step {kept.step:,}"
            about = f"{part.first.bits_per_byte:.3f} at step 0; lower is better"
            entries.append((f"{kept.bits_per_byte:.3f}", name, about))
    elif start is not None and start.own_score:
        # Without the method, which may be a baseline itself.
        others = {name: score for name, score in start.bits_per_byte.items() if name in BASELINES}
        others.pop(start.method, None)
        compared = [f"{BASELINES[name]} {others[name]:.3f}" for name in BASELINES if name in others]
        about = "; ".join(["lower is better", *compared])
        entries.append((f"{start.own_score:.3f}", "bits per byte before training", about))
    if start is not None:
        entries += _evidence_figures(start)
    if graft := notes.get("graft"):  # pruned models, which no transfer wrote, have one too
        entries.append((f"{sum(graft['origins'].values()):,}", "tokens in the vocabulary", ""))
    return entries


def _evidence_figures(start: Start) -> list[tuple[str, str, str]]:
    """Return the numbers that were measured of the tokenizer and the evidence of a transfer."""
    entries = []
    if (text := start.text) is not None:
        ratio = text.target_tokens / max(1, text.source_tokens)
        about = f"{text.target_tokens:,} instead of {text.source_tokens:,}; fewer is better"
        entries.append((f"{ratio:.0%}", "of the tokens for the same text", about))
    if (checked := start.dictionary) is not None and checked.related is not None:
        about = f"of {checked.words:,} words in the dictionary; 50% is chance"
        entries.append((f"{checked.related:.1%}", "of related words have related translations", about))
    if start.alignment and (hits := alignment_hits(start.alignment)):
        about = f"{hits[0]:,} of {hits[1]:,}, by the aligned word vectors"
        entries.append((f"{hits[0] / hits[1]:.1%}", "of held-out words are translated", about))
    return entries


def _next_steps(folder: Path, notes: Notes, command: Mapping[str, Any], curve: Curve | None) -> list[NextStep]:
    """Return what usually follows, with commands to be run in the folder that contains the model."""
    name = Path(folder.resolve().name)
    if curve is None and command.get("corpus") and not notes.get("pruned"):
        return after_transfer(folder, notes, name=name)
    return after_training(name, notes, curve, folder=folder)


def _sentences(samples: Sequence[SegmentedLine]) -> str:
    blocks = []
    for sample in samples:
        rows = []
        for side, pieces in (("source", sample.source), ("target", sample.target)):
            chips = "".join(
                f"<span>{escape(piece) or '&nbsp;'}{f'<sup>{tokens}</sup>' if tokens > 1 else ''}</span>"
                for piece, tokens in pieces
            )
            count = sum(tokens for _, tokens in pieces)
            title = f"<h3>{side} tokenizer<b>{count_of(count, 'token')}</b></h3>"
            rows.append(
                f'<div class="tokens {side}">{title}<p dir="auto">{chips}{" …" if sample.is_cut else ""}</p></div>'
            )
        blocks.append(f'<div class="sentence">{"".join(rows)}</div>')
    # Below the first sentence that has a raised number; it may be shown only on demand.
    raised = [any(tokens > 1 for _, tokens in (*sample.source, *sample.target)) for sample in samples]
    if any(raised):
        blocks[raised.index(True)] += hint("A raised number is the number of tokens that one character takes.")
    if len(blocks) > 1:
        more = "another sentence" if len(blocks) == 2 else f"{len(blocks) - 1} more sentences"
        blocks = [blocks[0], f"<details><summary>Show {more}</summary>{''.join(blocks[1:])}</details>"]
    return "".join(blocks)


def _scores(notes: Notes, start: Start | None, *, is_trained: bool) -> str:
    """Return the scores of the transfer, after its verdict if the summary only has the verdict on a training."""
    if start is None:
        return ""
    verdict = _transfer_verdict(start) if is_trained and not recall_poor_start(notes) else ""
    if not start.bits_per_byte:
        return f"{verdict}<p>Not scored: {escape(_why_not_scored(notes, start))}.</p>"
    ranked = sorted(start.bits_per_byte.items(), key=lambda entry: entry[1])
    ordered = {BASELINES.get(name, name): score for name, score in ranked}
    sample = f"{start.text.bytes:,} bytes of held-out text" if start.text is not None else "held-out text"
    frequencies = "They know how often the text has each token, from the unigram prior. " if start.has_prior else ""
    about = (
        f"Bits that the model needs to predict a byte, measured on {sample} in windows of at most {WINDOW} tokens: "
        "further left is better, and the axis does not begin at zero. Random rows are drawn at random, shuffled rows "
        "are the model's own rows at random tokens. "
        f"{frequencies}Both use neither evidence nor spelling nor the tokens that both "
        "vocabularies share, so the difference to them is what all of these gain together. The order may change in "
        "training: rows without evidence learn more slowly."
    )
    hints = "".join(map(hint, [*explain_sample(start), about]))
    return verdict + dots(ordered, marked=BASELINES.get(start.method, start.method)) + hints


def _why_not_scored(notes: Notes, start: Start) -> str:
    """Say why a transfer has no scores."""
    if start.not_scored is not None:
        return f"the model does not fit into memory ({start.not_scored})"
    if recorded_command(notes).get("score") is False:
        return "the transfer was run with score=false"
    return "the model has no language-modelling head"


def _further_scores(changes: Sequence[ModelChange]) -> str:
    """Return the scores of the parts of steps, such as the phases of TreLM."""
    found = [score for change in changes for score in change.scores]
    return table(measured_rows(found)) + hint("The arrow points to where scores are better.") if found else ""


def _lengths(start: Start | None) -> str:
    """Return the length of the target text by the number of tokens that a vocabulary was extended by."""
    if start is None or start.extension is None:
        return ""
    points = [(added, length) for added, length in start.extension.tokens_per_byte]
    return draw_curves({"target language": points}, label="tokens per byte", unit="added token")


def _training(notes: Notes, curve: Curve | None) -> str:
    if curve is None:
        return ""
    lines = {
        language or "held-out text": [(point.step, point.bits_per_byte) for point in part.points]
        for language, part in curve.by_language.items()
    }
    scores = table(curve_table(curve, selected_step(notes, curve)).rows)
    hints = "".join(map(hint, compare_with_transfer(notes, curve)))
    losses = [(point.step, point.loss) for point in curve.points if point.loss is not None]
    loss = draw_curves({"training loss": losses}, label="nats per token") if len(losses) > 1 else ""
    return f'<div class="plots">{draw_curves(lines)}{loss}</div>' + scores + hints


def _evidence(notes: Notes) -> str:
    parts = []
    for report in (step.report for step in STEPS.values()):
        for part in (report.summarise_evidence or report.summarise_notes)(notes):
            if isinstance(part, str):
                parts.append(f"<p>{with_whole_options(part)}</p>")
            else:
                parts.append(f"<h3>{escape(part.title)}</h3>{table(part.rows)}")
    prior = notes.get("unigram_prior")
    if prior and prior["changed"] != "nothing":
        parts.append(
            f"<h3>Unigram prior</h3><p>How often each token occurs in {prior['tokens']:,} tokens of text was built "
            f"into the model, by a change of its {escape(prior['changed'])}: it needs {prior['bits_after']:.2f} bits "
            f"per token instead of {prior['bits_before']:.2f}.</p>"
        )
    return "".join(parts)


def _facts(folder: Path, notes: Notes, command: Mapping[str, Any]) -> str:
    provenance = notes.get("provenance") or {}
    # The date of the file, so that the same folder gives the same report.
    written = datetime.fromtimestamp((folder / "config.json").stat().st_mtime, UTC)
    facts = {
        "date": f"{written:%d %B %Y, %H:%M} UTC",
        "seed": _text(provenance.get("seed")),
        "relexify": str(provenance.get("version", "")),
        "report written with": f"Python {platform.python_version()}, "
        + ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers", "tokenizers", "numpy")),
        "trained from": str(notes.get("trained_from", "")),
    }
    parts = [definition_list({name: value for name, value in facts.items() if value})]
    names = {**command, **(command.get("options") or {})}
    inputs = [[name, _text(names.get(name)) or "–", digest] for name, digest in provenance.get("inputs", {}).items()]
    if inputs:
        rows = table([["input", "name", "sha256 of its content"], *inputs])
        parts.append(f"<details><summary>Inputs, with hashes</summary>{rows}</details>")
    for title, options in (("Options of the transfer", command), ("Options of the training", notes.get("training"))):
        if options:
            text = json.dumps(options, indent=2, ensure_ascii=False, sort_keys=True)
            parts.append(f'<details><summary>{title}</summary><pre tabindex="0">{escape(text)}</pre></details>')
    return "".join(parts)


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
