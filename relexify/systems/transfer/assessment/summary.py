"""The result of a transfer in words and tables: the verdict, and the measurements behind it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from relexify.mixture import Fallback
from relexify.scoring import WINDOW
from relexify.steps import ResultTable
from relexify.storage.notes import read_notes
from relexify.systems.transfer.assessment.start import (
    BASELINES,
    BitextCheck,
    DictionaryCheck,
    ExtensionCheck,
    Start,
    TextCoverage,
    start_of,
)
from relexify.systems.transfer.assessment.verdict import (
    LEAST_GOOD_PRECISION,
    LEAST_USABLE_PRECISION,
    alignment_hits,
    judge,
    verdict_of,
)
from relexify.systems.transfer.other_text import describe_other_text
from relexify.training.results.curve import TARGET

if TYPE_CHECKING:
    from pathlib import Path

    from relexify.evidence.alignment import Rotation
    from relexify.systems.transfer.run import TransferResult
    from relexify.training.results.curve import Curve

__all__ = [
    "alignment_precision",
    "compare_with_transfer",
    "explain_sample",
    "recall_poor_start",
    "summarise_evidence",
    "summarise_notes",
    "summarise_rotation",
    "summarise_transfer",
]

MOST_SCORE_DIFFERENCE = 0.005
"""Bits per byte by which two scores of one model on one text may differ: a GPU may score in another precision."""
WHOLE_TEXT_SHARE = 0.95
"""Share of the held-out text above which all of it counts as scored; a long paragraph may be left out."""

_ORIGINS = {
    "special": "special: the row of the same role",
    "copied": "copied: the row of the same token, unchanged",
    "mixed": "mixed: weighted mean of several tokens",
    "pieces": "pieces: mean of the tokens that spell it",
    "precomputed": "computed by the method, not mixed",
}
"""Origins of rows, and what a row is then made from."""
_BASELINE_ROWS = {"random": "drawn at random", "shuffle": "the model's own, at random tokens"}
"""What the rows of baselines are."""


def summarise_transfer(result: TransferResult) -> list[ResultTable | str]:
    """Return where the embeddings come from, the quality of the evidence, the scores before training, and a verdict."""
    return _summarise(result.start)


def summarise_notes(notes: Mapping[str, Any]) -> list[ResultTable | str]:
    """Summarise the transfer that a model comes from, by its `relexify.json`; empty if there was none."""
    start = start_of(notes)
    return [] if start is None else _summarise(start)


def summarise_evidence(notes: Mapping[str, Any]) -> list[ResultTable | str]:
    """Summarise the evidence of the transfer that a model comes from, by its `relexify.json`; empty if there was none.

    It is what `summarise_notes` returns without the origins of the rows, the scores and the verdict.
    """
    start = start_of(notes)
    return [] if start is None else _summarise_evidence(start)


def compare_with_transfer(notes: Mapping[str, Any], curve: Curve) -> list[str]:
    """Compare the scores of a training with the scores of the transfer before it, in a sentence.

    Args:
        notes: `relexify.json` of the trained model.
        curve: The scores of the training.

    Returns:
        The sentence; nothing if step 0 is not known to be the model that a transfer has written and scored.
    """
    training = notes.get("training") or {}
    # Notes without `from_trained` leave open whether this is the first training of the model.
    start = start_of(notes)
    if training.get("from_trained", True) or start is None or "compression" in notes:
        return []
    own, original = start.own_score, start.original_score
    # With text of both languages, the score is the mean of theirs.
    here = (curve.first.by_language or {TARGET: curve.first.bits_per_byte}).get(TARGET)
    if own is None or original is None or start.text is None or here is None:
        return []
    if other := describe_other_text(notes, curve):
        return [
            f"Step 0 is the model of the transfer, but needs {here:.3f} bits per byte here and {own:.3f} there: "
            f"{other}. The two are probably in different languages: train it on text in the language of the transfer."
        ]
    if abs(own - here) > MOST_SCORE_DIFFERENCE:
        return [
            "Do not compare these scores with the scores of the transfer: step 0 is the same model, but needs "
            f"{here:.3f} bits per byte here, in windows of {training['length']} tokens, and {own:.3f} there, on "
            f"{start.text.bytes:,} bytes of text in windows of at most {WINDOW} tokens."
        ]
    sentence = (
        f"On the same text in the target language, the original model and tokenizer need {original:.3f} bits per byte."
    )
    if f"{own:.3f}" != f"{here:.3f}":
        difference = "other text or another number format was used"
        if training["length"] != WINDOW:
            difference = f"windows had {WINDOW} tokens at most instead of {training['length']}"
        sentence += f" Step 0 is the model of the transfer, which needed {own:.3f} there, where {difference}."
    return [sentence]


def explain_sample(start: Start) -> list[str]:
    """Return why only a part of the held-out text was scored, and how to score more; nothing if all of it was."""
    text = start.text
    if text is None or not start.bits_per_byte or text.whole_bytes is None:
        return []
    if text.bytes >= WHOLE_TEXT_SHARE * text.whole_bytes:
        return []
    return [
        f"{text.bytes:,} of about {text.whole_bytes:,} bytes of held-out text were scored, since scoring takes long: "
        f"--set held_out_bytes={text.whole_bytes} scores all of it (default: 400,000 with CUDA, else 8,192)."
    ]


def recall_poor_start(notes: Mapping[str, Any]) -> tuple[str, ...]:
    """Return sentences about the transfer before a training if it was a poor start, the headline first; else none.

    Args:
        notes: `relexify.json` of the trained model, which has the verdict on the transfer.
    """
    verdict = verdict_of(notes)
    if verdict is None or verdict.start != "poor" or start_of(notes) is None:
        return ()
    headline = "The transfer that it started from was a poor start."
    return headline, verdict.finding, *verdict.details, "Repair this before a long training."


def alignment_precision(output: Path) -> dict[str, float]:
    """Return the precision at 1 of the vector alignment of the transfer in a folder, if it was measured."""
    quality = (read_notes(output).get("alignment") or {}).get("quality")
    return {} if quality is None else {"P@1 of the vectors": quality["precision"]}


def summarise_rotation(rotation: Rotation) -> list[ResultTable | str]:
    """Return how well the vectors of two languages were aligned, and what that means for mixtures based on them."""
    return _summarise_alignment(rotation.summary())


def _summarise(start: Start) -> list[ResultTable | str]:
    summary: list[ResultTable | str] = [_origins_table(start), *_summarise_evidence(start)]
    if start.bits_per_byte:
        rows = [
            [_describe_rows(name, has_prior=start.has_prior), f"{value:.3f}"]
            for name, value in sorted(start.bits_per_byte.items(), key=lambda score: score[0] == start.method)
        ]
        scored = f", {start.text.bytes:,} bytes of held-out text" if start.text else ""
        title = f"Before training{scored} (lower is better)"
        summary.append(ResultTable(title, [["embeddings", "bits per byte"], *rows]))
        summary += explain_sample(start)
    verdict = judge(start)
    return [*summary, f"{verdict.headline} {verdict.reason}"]


def _summarise_evidence(start: Start) -> list[ResultTable | str]:
    """Return the tests of the evidence, and the length of the text under both tokenizers."""
    summary: list[ResultTable | str] = []
    if start.alignment is not None:
        summary += _summarise_alignment(start.alignment)
    if start.dictionary is not None:
        summary.append(_dictionary_table(start.dictionary))
    if start.bitext is not None:
        summary.append(_bitext_table(start.bitext))
    if start.text is not None:
        summary.append(_text_table(start.text, start.sampled))
    if start.extension is not None:
        summary += _summarise_extension(start.extension)
    return summary


def _describe_rows(name: str, *, has_prior: bool) -> str:
    """Return how an initialisation makes its rows; `has_prior` says whether baselines have a unigram prior."""
    if name not in _BASELINE_ROWS:
        return BASELINES.get(name, name)
    return f"{BASELINES[name]}: {_BASELINE_ROWS[name]}{', with token frequencies' if has_prior else ''}"


def _origins_table(start: Start) -> ResultTable:
    """Return the rows by origin: as shares of the vocabulary and, if there is any, of the text."""
    total = max(1, start.vocabulary_size)
    means = (Fallback.MEAN, Fallback.NEAR_MEAN)
    filled = "mean of all rows of the model" if start.fallback in means else "random"
    names = {**_ORIGINS, "none": f"no evidence: {filled}"}
    shown = {origin for origin, count in start.origins.items() if count or origin == "none"}
    header = ["tokens", "count", "of the vocabulary"]
    rows = [
        [name, f"{start.origins[origin]:,}", f"{start.origins[origin] / total:.1%}"]
        for origin, name in names.items()
        if origin in shown
    ]
    if start.text is not None:
        header.append("of the text")
        shares = [start.text.origins.get(origin, 0.0) for origin in names if origin in shown]
        rows = [[*row, f"{share:.1%}"] for row, share in zip(rows, shares, strict=True)]
    return ResultTable("Origin of the target embeddings", [header, *rows])


def _summarise_alignment(alignment: Mapping[str, Any]) -> list[ResultTable | str]:
    """Return the quality of a vector alignment, as `Rotation.summary` gives it, and its consequence."""
    rows = [
        ["measure", "value"],
        ["word pairs used", f"{alignment['pairs_used']:,} ({alignment['coverage']:.1%} of all pairs)"],
    ]
    hits = alignment_hits(alignment)
    if hits is None:
        return [ResultTable("Alignment of the word vectors", rows)]
    quality = alignment["quality"]
    rows += [
        ["held-out words", f"{quality['words']:,}"],
        ["precision at 1", f"{quality['precision']:.1%}"],
        ["precision at 1 with CSLS", f"{quality['csls_precision']:.1%}"],
    ]
    right, words = hits
    if right < LEAST_USABLE_PRECISION * words:
        meaning = "so mixtures based on them are mostly noise"
    elif right < LEAST_GOOD_PRECISION * words:
        meaning = "so mixtures based on them are imprecise, and training has to correct many of them"
    else:
        meaning = "which is enough for mixtures: the other words mostly get words of related meaning"
    sentence = f"The nearest word is a listed translation for {right:,} of {words:,} held-out words, {meaning}."
    return [ResultTable("Alignment of the word vectors", rows), sentence]


def _dictionary_table(check: DictionaryCheck) -> ResultTable:
    rows = [
        ["measure", "value"],
        ["tokens with a translation", f"{check.tokens:,}"],
        ["share of the text that they make up", f"{check.text_share:.1%}"],
    ]
    if check.related is not None:
        share = f"{check.related:.1%} of {check.words:,}"
        rows.append(["related words with related translations (chance: 50%)", share])
    return ResultTable("Dictionary", rows)


def _bitext_table(check: BitextCheck) -> ResultTable:
    rows = [["measure", "value"], ["pairs of sentences", f"{check.pairs:,}"]]
    if check.overlap is not None:
        rows.append(["words of the text that it has", f"{check.overlap:.1%}"])
    rows += [
        ["tokens that are built from it", f"{check.tokens:,}"],
        ["share of the text that they make up", f"{check.text_share:.1%}"],
    ]
    if check.shared is not None:
        rows.append(["of these tokens, also in the dictionary", f"{check.shared:,}"])
    return ResultTable("Parallel text", rows)


def _summarise_extension(check: ExtensionCheck) -> list[ResultTable | str]:
    """Return the length of the text by the number of added tokens, and what they do to the source language."""
    whole = check.tokens_per_byte[0][1]
    lengths = [[f"{added:,}", f"{length:.4f}", f"{length / whole:.1%}"] for added, length in check.tokens_per_byte]
    header = ["added tokens", "tokens per byte", "of the original"]
    kept = f"All {check.source_tokens:,} tokens of held-out text in the model's language are the same as before."
    if check.source_added:
        kept = (
            f"Held-out text in the model's language has {check.source_tokens:,} tokens, and {check.source_added:,} "
            "added tokens replace some of them: give more of its text (--source-corpus)."
        )
    parts: list[ResultTable | str] = [ResultTable("Length of the text", [header, *lengths]), kept]
    if scores := check.source_bits_per_byte:
        rows = [[name, f"{value:.6f}"] for name, value in scores.items()]
        parts.append(ResultTable("Text in the model's language (lower is better)", [["model", "bits per byte"], *rows]))
    return parts


def _text_table(text: TextCoverage, sampled: str) -> ResultTable:
    header = ["tokenizer", "tokens", f"per {text.unit}", "bytes per token"]
    counts = {"original": text.source_tokens, "target": text.target_tokens}
    rows = [
        [name, f"{count:,}", f"{count / text.words:.2f}", f"{text.bytes / max(1, count):.2f}"]
        for name, count in counts.items()
    ]
    return ResultTable(f"Length of {text.bytes:,} bytes of {sampled} with each tokenizer", [header, *rows])
