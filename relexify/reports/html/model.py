"""What the report of a model says, from the files of its folder alone."""

from __future__ import annotations

import json
import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from relexify.grafting import MIXTURE_FILE
from relexify.mixture import Mixture, Origin
from relexify.pretrained.lexical import read_embedding
from relexify.reports.html.atlas import build_atlas, readable, script_of
from relexify.reports.html.curves import draw_curves
from relexify.reports.html.elements import bars, definition_list, figures, legend, notice, stacked_bars, table
from relexify.reports.html.page import Section, render
from relexify.steps import STEPS, ResultTable
from relexify.storage.work import read_notes
from relexify.systems.transfer.start import BASELINES
from relexify.training.curve import Curve
from relexify.training.result import CURVE_FILE

__all__ = ["render_model"]

_ORIGINS = {
    "special": "special tokens",
    "copied": "copied from the same token",
    "mixed": "mixed from evidence",
    "pieces": "mean of source pieces",
    "precomputed": "computed by the method",
    "none": "no evidence",
}
_BANDS = (1_000, 4_000, 16_000, 64_000)
"""Ends of the bands of the vocabulary, whose first tokens are the most frequent."""
_SCRIPTS = 8
"""Scripts that are shown; the others are one group."""


def render_model(folder: Path) -> str:
    """Return the report of the model in a folder, trained or not, as a page."""
    notes = read_notes(folder)
    command = (notes.get("provenance") or {}).get("command", {})
    curve = Curve.load(folder / CURVE_FILE) if (folder / CURVE_FILE).is_file() else None
    mixture = Mixture.load(folder / MIXTURE_FILE) if (folder / MIXTURE_FILE).is_file() else None
    atlas = build_atlas(mixture, read_embedding(folder)) if mixture is not None else None
    scores = notes.get("bits_per_byte_before_training") or {}
    sections = [
        Section("summary", "Summary", _summary(notes, scores, curve)),
        Section("sentences", "The same sentences under both tokenizers", _sentences(notes.get("samples") or ())),
        Section("scores", "Before training", _scores(scores, str(notes.get("method", "")))),
        Section("lengths", "Length of the text", _lengths(notes.get("extension"))),
        Section("training", "Training", _training(curve)),
        Section("origins", "Where the embeddings come from", _origins(notes, mixture) if mixture is not None else ""),
        Section("atlas", "Token atlas", _ATLAS if atlas is not None else ""),
        Section("evidence", "Evidence", _evidence(notes, command)),
        Section("facts", "How it was made", _facts(notes, command)),
    ]
    source, method = command.get("model"), notes.get("method")
    made = "pruned" if notes.get("pruned") else f"transferred with {method}"
    subtitle = f"{source}, {made}" if source and method else "A model written by relexify"
    if curve is not None:
        subtitle += f", trained for {curve.last.step:,} steps"
    return render(folder.resolve().name, subtitle, sections, data=atlas.pack() if atlas is not None else b"")


def _summarise(notes: Mapping[str, Any]) -> list[ResultTable | str]:
    """Return what the steps that made the model say about it."""
    return [part for step in STEPS.values() for part in step.summarise_notes(notes)]


def _summary(notes: Mapping[str, Any], scores: Mapping[str, float], curve: Curve | None) -> str:
    entries = []
    origins = (notes.get("graft") or {}).get("origins", {})
    total = sum(origins.values())
    if curve is not None:
        first, kept = curve.first.bits_per_byte, curve.best.bits_per_byte
        entries.append((f"{kept:.3f}", "bits per byte at best", f"{first:.3f} before training"))
    elif own := scores.get(method := str(notes.get("method"))):
        # Without the method, which may be a baseline itself.
        others = [f"{BASELINES[name]} {scores[name]:.3f}" for name in BASELINES if name in scores and name != method]
        entries.append((f"{own:.3f}", "bits per byte before training", "; ".join(["lower is better", *others])))
    if text := notes.get("held_out_text"):
        ratio = text["target_tokens"] / max(1, text["source_tokens"])
        about = f"{text['target_tokens']:,} instead of {text['source_tokens']:,} tokens"
        entries.append((f"{ratio:.0%}", "of the tokens for the same text", about))
    if total:
        entries.append((f"{total:,}", "tokens", f"{notes['graft']['rows']:,} rows of the embedding"))
        known = 1 - origins.get("none", 0) / total
        entries.append((f"{known:.1%}", "of the tokens have evidence", f"{origins.get('none', 0):,} have none"))
    judged = str((notes.get("verdict") or {}).get("start", "open"))
    sentences = [notice(judged, part) for part in _summarise(notes) if isinstance(part, str)]
    if prompt := notes.get("system_prompt"):
        about = "The chat template begins chats with a system prompt in the language of the source model"
        sentences.append(notice("open", f"{about}: “{prompt}”."))
    return "".join(sentences) + (figures(entries) if entries else "")


def _sentences(samples: Sequence[Mapping[str, Any]]) -> str:
    blocks = []
    for sample in samples:
        rows = []
        for side, name in (("source", "source tokenizer"), ("target", "target tokenizer")):
            chips = "".join(
                f"<span>{escape(piece) or '&nbsp;'}{f'<sup>{tokens}</sup>' if tokens > 1 else ''}</span>"
                for piece, tokens in sample[side]
            )
            count = sum(tokens for _, tokens in sample[side])
            rows.append(
                f'<div class="tokens {side}"><h3>{name}<b>{count} tokens</b></h3><p dir="auto">{chips}</p></div>'
            )
        blocks.append(f'<div class="sentence">{"".join(rows)}</div>')
    if not blocks:
        return ""
    return "".join(blocks) + '<p class="hint">A small number counts the tokens of one character.</p>'


def _scores(scores: Mapping[str, float], method: str) -> str:
    if not scores:
        return ""
    ordered = {BASELINES.get(name, name): score for name, score in sorted(scores.items(), key=lambda entry: entry[1])}
    hint = (
        "Bits that the model needs to predict a byte of held-out text; lower is better. The order may change in "
        "training: rows without evidence learn more slowly."
    )
    return bars(ordered, marked=BASELINES.get(method, method)) + f'<p class="hint">{hint}</p>'


def _lengths(extension: Mapping[str, Any] | None) -> str:
    """Return the length of the target text by the number of tokens that a vocabulary was extended by."""
    if not extension:
        return ""
    points = [(added, length) for added, length in extension["tokens_per_byte"]]
    return draw_curves({"target language": points}, label="tokens per byte", unit="added token")


def _training(curve: Curve | None) -> str:
    if curve is None:
        return ""
    languages = list(curve.first.by_language or ())
    lines = {
        language: [(point.step, (point.by_language or {})[language]) for point in curve.points]
        for language in languages
    } or {"held-out text": [(point.step, point.bits_per_byte) for point in curve.points]}
    chosen = {curve.first.step, curve.best.step, curve.last.step}
    rows = [["step", "tokens", "stage", "bits per byte", "perplexity"]]
    for point in curve.points:
        if point.step in chosen:
            step = f"{point.step:,}" + (" (best)" if point.step == curve.best.step else "")
            rows.append(
                [step, f"{point.tokens:,}", point.stage, f"{point.bits_per_byte:.4f}", f"{point.perplexity:,.2f}"]
            )
    losses = [(point.step, point.loss) for point in curve.points if point.loss is not None]
    loss = draw_curves({"training loss": losses}, label="nats per token") if len(losses) > 1 else ""
    return draw_curves(lines) + loss + table(rows)


def _origins(notes: Mapping[str, Any], mixture: Mixture) -> str:
    names = np.array([origin.name.lower() for origin in Origin])[mixture.origin]
    rows: dict[str, dict[str, float]] = {"all tokens": dict(Counter(names.tolist()))}
    covered = notes.get("held_out_text") or {}
    if covered.get("origins"):
        rows["held-out text"] = covered["origins"]
    by_script: dict[str, Counter[str]] = {}
    for token, origin in zip(mixture.target_tokens, names, strict=True):
        script = script_of(readable(token, mixture.target_spelling)) if origin != "special" else "special tokens"
        by_script.setdefault(script, Counter())[origin] += 1
    frequent = sorted(by_script, key=lambda script: -by_script[script].total())
    scripts: dict[str, Mapping[str, float]] = {script: by_script[script] for script in frequent[:_SCRIPTS]}
    if len(frequent) > _SCRIPTS:
        scripts["other scripts"] = sum((by_script[script] for script in frequent[_SCRIPTS:]), Counter())
    bands: dict[str, Mapping[str, float]] = {}
    start = 0
    for end in (*(end for end in _BANDS if end < len(names)), len(names)):
        bands[f"{start + 1:,} to {end:,}"] = Counter(names[start:end].tolist())
        start = end
    return (
        legend({part: name for part, name in _ORIGINS.items() if any(row.get(part) for row in rows.values())})
        + stacked_bars(rows, _ORIGINS)
        + f"<h3>By script</h3>{stacked_bars(scripts, _ORIGINS)}"
        + f"<h3>By frequency</h3>{stacked_bars(bands, _ORIGINS)}"
        + '<p class="hint">Bands of the vocabulary in its order: a trained tokenizer lists frequent tokens first.</p>'
    )


def _evidence(notes: Mapping[str, Any], command: Mapping[str, Any]) -> str:
    hashes = (notes.get("provenance") or {}).get("inputs", {})
    parts = []
    if hashes:
        rows = [["input", "name", "sha256 of its content"]]
        names = {**command, **(command.get("options") or {})}
        rows += [[name, _text(names.get(name)) or "–", digest] for name, digest in hashes.items()]
        parts.append(table(rows))
    shown = (part for part in _summarise(notes) if isinstance(part, ResultTable))
    parts += [f"<h3>{escape(part.title)}</h3>{table(part.rows)}" for part in shown]
    if prior := notes.get("unigram_prior"):
        parts.append("<h3>Unigram prior</h3>")
        parts.append(definition_list({name.replace("_", " "): _text(value) for name, value in prior.items()}))
    return "".join(parts)


def _facts(notes: Mapping[str, Any], command: Mapping[str, Any]) -> str:
    provenance = notes.get("provenance") or {}
    facts = {
        "seed": _text(provenance.get("seed")),
        "relexify": str(provenance.get("version", "")),
        "report written with": f"Python {platform.python_version()}, "
        + ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers", "tokenizers", "numpy")),
        "trained from": str(notes.get("trained_from", "")),
    }
    parts = [definition_list({name: value for name, value in facts.items() if value})]
    for title, options in (("Options of the transfer", command), ("Options of the training", notes.get("training"))):
        if options:
            text = json.dumps(options, indent=2, ensure_ascii=False, sort_keys=True)
            parts.append(f'<details><summary>{title}</summary><pre tabindex="0">{escape(text)}</pre></details>')
    return "".join(parts)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


_ATLAS = """
<p class="hint" id="atlas-help">Type a word or a part of one. Arrow keys choose a token, Enter shows it.
On the map, drag and scroll, or use the arrow keys, + and −.
A dot before a word is a space; \\xd9 is a byte, which is a part of a character.</p>
<div class="atlas">
 <div class="search">
  <label for="atlas-query">Token</label>
  <input id="atlas-query" type="search" role="combobox" aria-expanded="false" aria-controls="atlas-results"
   aria-autocomplete="list" aria-describedby="atlas-help" autocomplete="off" spellcheck="false" dir="auto">
  <ul id="atlas-results" role="listbox" aria-label="Tokens found"></ul>
 </div>
 <div id="atlas-detail" aria-live="polite"></div>
 <div class="map">
  <canvas id="atlas-map" tabindex="0" role="img" aria-label="Map of all tokens; similar tokens are near each other">
  </canvas>
  <div id="atlas-tip" hidden></div>
  <div class="legend" id="atlas-legend"></div>
 </div>
</div>
<p id="atlas-status" role="status">Reading the tokens …</p>
"""
