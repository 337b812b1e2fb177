"""The model card of an output folder: README.md with metadata for the Hub, scores and how the model was made."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCardData

from relexify.markdown import markdown_table, plain_text
from relexify.mixture import MIXTURE_FILE
from relexify.pretrained.architecture import architecture_in_config
from relexify.pretrained.files.packaged import PACKAGED
from relexify.pretrained.kinds import kind_of_folder
from relexify.pretrained.license import known_license
from relexify.pretrained.loading import load_config
from relexify.progress import count_of
from relexify.reports.command_line import source_title
from relexify.steps import changes_of
from relexify.storage.documents import DOCUMENTS
from relexify.storage.notes import Notes, read_notes
from relexify.systems.transfer.assessment.start import BASELINES, start_of
from relexify.systems.transfer.assessment.verdict import verdict_of
from relexify.training.results.curve import Curve
from relexify.training.results.result import CURVE_FILE, selected_step

__all__ = ["CARD", "render_card"]

CARD = "README.md"

_TASKS = {
    "decoder": ("text-generation", "AutoModelForCausalLM"),
    "encoder": ("fill-mask", "AutoModelForMaskedLM"),
    "encoder-decoder": ("text2text-generation", "AutoModelForSeq2SeqLM"),
}
"""The Hub's name for what a model does, and the class that loads it."""

_THIS = "this model"
_INPUTS = {
    "model": "weights of the source model",
    "model_settings": "its config and tokenizer",
    "donor_settings": "settings of the donor",
    "tokenizer": "target tokenizer",
}


def render_card(folder: Path, repository: str | None = None) -> str:
    """Return the model card of the model in a folder: what the files of the folder say, and nothing else.

    Args:
        folder: The folder.
        repository: The name on the Hub by which others load the model; None if it is not uploaded.
    """
    notes = read_notes(folder)
    history = [notes.get("provenance") or {}]  # provenance of the model, of the model that it was made from, and so on
    while source := history[-1].get("source"):
        history.append(source)
    curve = Curve.load(folder / CURVE_FILE) if (folder / CURVE_FILE).is_file() else None
    plain = kind_of_folder(folder) is None
    task, loader = _TASKS[architecture_in_config(load_config(folder))] if plain else ("", "")
    scores = _gather_scores(notes, curve)
    parts = [
        f"---\n{_render_metadata(folder, history, notes, task, scores)}\n---\n",
        f"# {plain_text(folder.resolve().name)}\n",
        _describe_model(history, notes, curve),
    ]
    if (folder / MIXTURE_FILE).is_file():
        parts.append("`report.html` shows every token with its origin.\n")
    if scores:
        rows = [[name, f"{value:.3f}"] for name, value in scores.items()]
        parts += ["## Scores\n", _about_scores(notes, scores)]
        parts.append(markdown_table(["model", "bits per byte"], rows))
    if plain:
        parts += ["## Use\n", _render_usage(repository or folder.resolve().name, loader)]
    if prompt := notes.get("system_prompt"):
        parts += [
            "## Chat\n",
            f"The chat template comes from the source model. It begins every chat without a system message with the "
            f"prompt “{plain_text(prompt)}”, in the language of the source model: pass a system message in the target "
            "language, or edit `chat_template.jinja`.\n",
        ]
    if hashes := (notes.get("provenance") or {}).get("inputs"):
        rows = [[_INPUTS.get(name, name.replace("_", " ")), f"`{digest}`"] for name, digest in hashes.items()]
        parts += ["## Inputs\n", _written_by(notes["provenance"])]
        parts.append(markdown_table(["input", "sha256 of its content"], rows))
    parts += ["## Limitations\n", _list_limitations(notes, curve)]
    return "\n".join(parts)


def _render_metadata(
    folder: Path,
    history: Sequence[Mapping[str, Any]],
    notes: Notes,
    task: str,
    scores: Mapping[str, float],
) -> str:
    """Return the metadata of the card in YAML, as the Hub reads it."""
    commands = [provenance.get("command", {}) for provenance in history]
    source, base = str(commands[0].get("model") or ""), str(commands[-1].get("model") or "")
    # A folder on the machine of the user means nothing to others.
    base = PACKAGED[base].base_model if base in PACKAGED else base
    card = ModelCardData(
        # The language of the last transfer; only transfers have this option.
        language=next((command["language"] for command in commands if "language" in command), None),
        license=known_license(source) if source else None,
        library_name="transformers" if task else None,
        pipeline_tag=task or None,
        base_model=base if base and not Path(base).exists() else None,
        tags=["relexify", *([f"relexify:{notes['method']}"] if "method" in notes else [])],
        model_name=folder.resolve().name,
        eval_results=[
            EvalResult(
                task_type=task or "text-generation",
                dataset_type="text",
                dataset_name="held-out text",
                metric_type="bits_per_byte",
                metric_name=f"bits per byte, {name}",
                metric_value=round(value, 4),
            )
            for name, value in scores.items()
            if name.startswith(_THIS)  # the Hub lists all of them as results of this model
        ]
        or None,
    )
    return str(card.to_yaml()).strip()


def _gather_scores(notes: Notes, curve: Curve | None) -> dict[str, float]:
    """Return the bits per byte that were measured, by the model that they are of."""
    if curve is None:
        start = start_of(notes)
        if start is None:
            return {}
        names = {**BASELINES, start.method: _THIS}  # the method may be a baseline itself
        return {names.get(name, name): value for name, value in start.bits_per_byte.items()}
    selected, since = selected_step(notes, curve), notes.get("trained_from")
    # Step 0 may be a model that was trained before.
    before = f"{Path(since).name}, before this training" if since else "before this training"
    scores: dict[str, float] = {}
    for language, part in curve.by_language.items():
        suffix = f" ({language})" if language else ""
        scores |= {
            f"{before}{suffix}": part.first.bits_per_byte,
            f"{_THIS}{suffix}": part.at(selected).bits_per_byte,
        }
    return scores


def _about_scores(notes: Notes, scores: Mapping[str, float]) -> str:
    """Say what was measured, and explain the rows of the table that only readers of the documentation know."""
    explained = {
        BASELINES["random"]: "the same tokenizer with embeddings drawn at random",
        BASELINES["shuffle"]: "the same tokenizer with the embeddings of the source model at random tokens",
    }
    start, sample = start_of(notes), "held-out text"
    is_of_transfer = not scores.keys().isdisjoint(BASELINES.values())  # a training may score another amount of text
    if start is not None and start.text is not None and is_of_transfer:
        sample = f"{start.text.bytes:,} bytes of held-out text"
    rows = "; ".join(f"{name}: {about}" for name, about in explained.items() if name in scores)
    return f"Bits per byte of {sample}; lower is better." + (f" {rows[:1].upper()}{rows[1:]}." if rows else "") + "\n"


def _written_by(provenance: Mapping[str, Any]) -> str:
    version, seed = provenance.get("version"), provenance.get("seed")
    written = f"Written by relexify {plain_text(str(version))}" if version else "Written by relexify"
    return (f"{written}, with the seed {seed}" if seed is not None else written) + ".\n"


def _describe_model(history: Sequence[Mapping[str, Any]], notes: Notes, curve: Curve | None) -> str:
    """Say where the model comes from, what was changed, and how it was trained."""
    commands = [provenance.get("command", {}) for provenance in history]
    sentences = []
    if commands[0].get("model"):
        # Only the last change: the notes also keep earlier ones.
        changes = [change.text for change in changes_of(notes) if change.text]
        change = changes[0] if changes else "whose tokens are unchanged. relexify trained it further."
        sentences.append(plain_text(f"{source_title(commands[0])}, {change}"))
    for command, source in pairwise(commands):
        language = f" for the language {plain_text(source['language'])}" if source.get("language") else ""
        method = f" with the method {source['method']}" if source.get("method") else ""
        made, origin = plain_text(source_title(command)), plain_text(source_title(source))
        sentences.append(f"{made} was made by relexify from {origin}{language}{method}.")
    if curve is not None:
        sentences.append(f"Trained for {count_of(curve.last.step, 'step')} on {count_of(curve.last.tokens, 'token')}.")
    elif training := notes.get("training"):
        sentences.append(f"The model that it was made from was trained on {training['tokens_seen']:,} tokens.")
    elif _is_untrained_transfer(notes):
        sentences.append("It has not been trained on text of that language yet.")
    if (start := start_of(notes)) is not None and (text := start.text) is not None:
        sample = f"{text.bytes:,} bytes of {start.sampled}"
        sentences.append(
            f"On {sample}, it needs {text.target_tokens:,} tokens, the source model {text.source_tokens:,}."
        )
    return " ".join(sentences) + "\n"


def _is_untrained_transfer(notes: Notes) -> bool:
    return "graft" in notes and not notes.get("pruned") and "training" not in notes


def _render_usage(model: str, loader: str) -> str:
    name = json.dumps(model, ensure_ascii=False)
    return (
        f"```python\nfrom transformers import AutoTokenizer, {loader}\n\n"
        f"model = {loader}.from_pretrained({name})\ntokenizer = AutoTokenizer.from_pretrained({name})\n```\n"
    )


def _list_limitations(notes: Notes, curve: Curve | None) -> str:
    """Return a list of what a user must know before using the model."""
    found = []
    verdict = verdict_of(notes)
    if verdict is not None and verdict.start in {"poor", "open"}:
        found.append(plain_text(verdict.reason))
    if curve is None and _is_untrained_transfer(notes):
        found.append("Train it before use: its embeddings are only initialised.")
    found.append("It has the biases of the source model and of its texts.")
    if "graft" in notes:
        found.append("Instructions and safety training of the source model may not carry over to the new language.")
    return "".join(f"- {sentence}\n" for sentence in found)


DOCUMENTS.add(CARD, render_card)
