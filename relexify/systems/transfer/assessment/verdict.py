"""The verdict on a transfer: is this a good start, and why?

Scores before training do not predict the order of initialisations after it: rows from aligned word vectors may score
worse than random ones and overtake them within some fifty steps. With a unigram prior, random rows are even hard to
beat at the start: for English to Swahili, they score the same as rows from a correct dictionary. So the verdict rests
on tests of the evidence first, and on the scores second (the limits of a dictionary are in `dictionary_verdict.py`):

1. `poor`, if no transfer is needed: the model knows the language of the text (`KNOWN_LENGTH`); or if the evidence is
   noise or missing: the text is shorter than `FEWEST_BYTES`, or the new tokenizer does not shorten it, the aligned
   vectors translate fewer than `NOISE` of held-out words, the dictionary covers less than `LITTLE_TEXT` of the text
   although it is not small (`MATCHES`), its translations are related as by chance (`CHANCE_Z`), or most of
   the text has no evidence;
2. `good`, if the evidence passes its test: the vectors translate `ROUGH` of held-out words or more, or the translations
   in the dictionary are related in `RELATED` of cases or more;
3. `open`, if the translations are related in fewer cases than that: some of them may be wrong, whatever the score; or
   if the dictionary is too small to tell;
4. `good`, if the model predicts the text better than with rows without evidence, by `GAIN` bits per byte or more;
5. `unknown`, if nothing was tested or scored;
6. `open` otherwise.

What is `good` by these is `open` if the new tokenizer hardly shortens the text (`LITTLE_SAVING`). Whatever the verdict,
it says what parallel text contributes, and whether the vocabulary is too large for the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from relexify.methods.registry import TRANSLATIONS
from relexify.storage.files import format_size
from relexify.storage.notes import read_as
from relexify.systems.transfer.assessment.dictionary_verdict import (
    describe_doubtful_dictionary,
    describe_sound_dictionary,
    describe_useless_dictionary,
)
from relexify.systems.transfer.assessment.start import BASELINES, Start, TextCoverage
from relexify.systems.transfer.defaults import DEFAULT_VOCABULARY
from relexify.systems.transfer.vocabulary_size import BYTES_PER_TOKEN, fitting_vocabulary

__all__ = ["Verdict", "alignment_hits", "judge", "verdict_of"]

NOISE = 0.05
"""Precision at 1 below which aligned vectors are useless: 19 of 20 nearest words are wrong."""
ROUGH = 0.2
"""Precision at 1 below which they are imprecise."""
GAIN = 0.05
"""Bits per byte that evidence must gain over rows without it; the sample of held-out text decides on less."""

DEFAULT = "blend"
"""The method that combines all types of evidence."""
MEANINGS = frozenset({*TRANSLATIONS, "rotation", "donor"})
"""Options with evidence of what target words mean in the source language."""
SMALL_VOCABULARY = 4_000
"""Tokens below which a vocabulary that does not shorten the text is called too small. A choice, not a measurement."""
LITTLE_SAVING = 0.1
"""Share of the tokens that a vocabulary for the language of the text saves at least: 8,000 tokens save 47 % in Swahili
and 41 % in German, with the tokenizer of SmolLM2 as the original, but 4 % in a dictionary that is given as text."""
KNOWN_LENGTH = {"word": 1.8, "character": 1.0}
"""Tokens of the model's own tokenizer per word, or per character of a script without spaces, below which it was trained
on the language of the text. That of SmolLM2, which was trained on English, needs 1.15 to 1.67 per word in six English
texts, 2.22 to 2.59 in four German ones, 2.68 to 2.78 in Swahili and 10.75 in Uyghur, and 1.41 to 1.96 per character in
Chinese. The limit per character is a choice: no tokenizer that was trained on such a language was measured."""
LITTLE_OVERLAP = 0.25
"""Share of the words of the text below which parallel text is small, or in another language. With 300 pairs or more, it
has from 0.27 (German) to 0.91 (Swahili); parallel text of another language has up to 0.21."""
FEWEST_BYTES = 10_000
"""Bytes of text below which a start is called poor: one to two thousand words. A choice, not a measurement."""


@dataclass(frozen=True)
class Verdict:
    """Whether a transferred model is a good start for training.

    Attributes:
        start: `good`, `open`, `poor` or `unknown`.
        reason: Why, and what to do about it if it is not good, in a few sentences.
        changes: Options of another transfer that may be a better start, by name; None leaves one out.
        is_needed: Whether a transfer is needed: not, if the model knows the language of the text.
    """

    start: Literal["good", "open", "poor", "unknown"]
    reason: str
    changes: Mapping[str, str | None] = field(default_factory=dict)
    is_needed: bool = True


def judge(start: Start) -> Verdict:
    """Judge a transfer by its evidence and its scores before training."""
    if _knows_language(start):
        return _judge_known(start)
    verdict = _judge(start)
    return replace(verdict, reason=verdict.reason + _describe_bitext(start) + _describe_rare_tokens(start, verdict))


def verdict_of(notes: Mapping[str, Any]) -> Verdict | None:
    """Return the verdict that `relexify.json` has on the transfer of a model; None if there was none."""
    verdict = notes.get("verdict")
    return read_as(Verdict, verdict) if verdict else None


def _judge(start: Start) -> Verdict:  # noqa: PLR0911
    """Judge a transfer to a language that the model does not know."""
    baselines, own = start.baseline_scores, start.own_score
    gain = min(baselines.values()) - own if baselines and own is not None else None
    has_evidence = any(count for origin, count in start.origins.items() if origin not in ("none", "special"))
    if start.method in baselines or not has_evidence:
        reason = f"{start.method} uses no evidence; it is a baseline to compare with."
        return Verdict("poor", reason + _missing_evidence(start), _default_method(start))
    if start.corpus_bytes is not None and start.corpus_bytes < FEWEST_BYTES:
        return Verdict(
            "poor",
            f"The text has only {start.corpus_bytes / 1000:.1f} kB, which is too little to learn a vocabulary or a "
            "language from: give some hundred kB at least.",
        )
    if start.text is not None and start.extension is None and start.text.target_tokens >= start.text.source_tokens:
        return _judge_length(start, start.text)
    if (complaint := _complaint(start)) is not None:
        reason = complaint.reason + _explain_gain(gain)
        if "dictionary" in complaint.changes and own is not None:
            reason += (
                f" Without the dictionary, the score before training may stay about as it is ({own:.3f}), or be a "
                "little worse: this score does not predict the one after training."
            )
        return replace(complaint, reason=reason)
    if praise := _praise(start):
        others = f" Rows without evidence (random or shuffled) need {min(baselines.values()):.3f}." if baselines else ""
        if gain is not None and gain < GAIN:
            less = "they need less" if gain < 0 else "they need hardly more"
            others += f" That {less} is common and says little: rows from evidence usually lead early in training."
        return _unless_too_long(start, Verdict("good", praise + _compared_with_original(start) + others))
    doubt = ""
    if start.dictionary is not None:
        doubt = describe_doubtful_dictionary(start.dictionary, start.corpus_bytes)
    if doubt:
        if gain is not None and gain < 0:
            doubt += (
                f" Rows without evidence need less before training ({min(baselines.values()):.3f}, against {own:.3f} "
                "bits per byte). This is common, and does not predict which are better after training."
            )
        return Verdict("open", doubt)
    if gain is None or own is None:
        reason = f": {start.not_scored}" if start.not_scored else " before training"
        return Verdict("unknown", f"The model was not scored{reason}.{_missing_evidence(start)}")
    return _judge_scores(start, own, baselines)


def alignment_hits(alignment: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return how many held-out words the aligned vectors translate, and how many were tested; None if none were."""
    quality = alignment["quality"]
    if quality is None:
        return None
    return round(max(quality["precision"], quality["csls_precision"]) * quality["words"]), quality["words"]


def _judge_scores(start: Start, own: float, baselines: Mapping[str, float]) -> Verdict:
    """Judge a transfer whose evidence could not be tested, by its score compared with rows without evidence."""
    compared = " and ".join(f"{value:.3f} with {BASELINES[name]}" for name, value in baselines.items())
    gain = min(baselines.values()) - own
    if gain >= GAIN:
        works = "spelling, and tokens that both vocabularies have, help"
        if not _is_text_alone(start):
            works = "the evidence works"
        reason = f"Before any training, the model needs {own:.3f} bits per byte, against {compared}: {works}."
        return _unless_too_long(start, Verdict("good", reason + _compared_with_original(start, is_known=True)))
    better = f"only {gain:.3f} bits per byte better than without evidence, too little to tell"
    if gain < 0.0005:  # 0.000 as it is shown
        better = "no better than without evidence"
    return Verdict(
        "open",
        f"Before training, it predicts the text {better} ({own:.3f} bits per byte, against {compared}). Good evidence "
        "often starts like this and shows within the first steps: train two methods for a "
        f"short time (relexify advise) before you train one for long.{_missing_evidence(start)}",
    )


def _praise(start: Start) -> str:
    """Return what shows that the evidence is good; empty if no test does."""
    hits = alignment_hits(start.alignment) if start.alignment else None
    if hits is not None and hits[0] >= ROUGH * hits[1]:
        return f"The aligned word vectors find a listed translation for {hits[0]} of {hits[1]} held-out words."
    return describe_sound_dictionary(start.dictionary) if start.dictionary is not None else ""


def _knows_language(start: Start) -> bool:
    """Whether the model was trained on the language of the text, so that a new vocabulary hardly shortens it.

    Its tokenizer then needs few tokens for a word, and it predicts the text better than with the new vocabulary.
    """
    text, own, original = start.text, start.own_score, start.original_score
    if text is None or not _hardly_shortens(start):
        return False
    is_better = own is None or original is None or original < own
    return is_better and text.source_tokens < KNOWN_LENGTH[text.unit] * text.words


def _hardly_shortens(start: Start) -> bool:
    """Whether a new tokenizer, which replaces the model's own, saves less than `LITTLE_SAVING` of the tokens."""
    text = start.text
    if text is None or start.extension is not None:
        return False
    return text.target_tokens > (1 - LITTLE_SAVING) * text.source_tokens


def _judge_known(start: Start) -> Verdict:
    """Judge a transfer to a language that the model knows."""
    text, own, original = start.text, start.own_score, start.original_score
    found = "The model seems to know the language of this text already"
    if text is not None:
        found += (
            f": its own tokenizer needs only {text.source_tokens / text.words:.2f} tokens per {text.unit}, as for a "
            f"language that it was trained on, and the new one {text.target_tokens / text.words:.2f}"
        )
    scores = ""
    if own is not None and original is not None:
        scores = f" It predicts the text with {original:.3f} bits per byte, and after this transfer with {own:.3f}."
    return Verdict(
        "poor",
        f"{found}.{scores} Train the model as it is (relexify train), or remove the tokens that you do not need "
        "(relexify prune). For the terms of a special field, add tokens (--keep-source). If this is not "
        "the language that you want, give text in that one (--corpus).",
        is_needed=False,
    )


def _describe_bitext(start: Start) -> str:
    """Say what parallel text contributes; empty if there is none."""
    check = start.bitext
    if check is None:
        return ""
    pairs = "one pair" if check.pairs == 1 else f"{check.pairs:,} pairs"
    found = f" Parallel text ({pairs}) gives meanings to {check.tokens:,} tokens, {check.text_share:.0%} of the text"
    if check.shared is not None:
        found += f"; the dictionary has {check.shared:,} of these tokens too"
    if check.overlap is None or check.overlap >= LITTLE_OVERLAP:
        return f"{found}."
    return (
        f"{found}. But it has only {check.overlap:.0%} of the words of the text, so it is small, or not in the "
        "language of the text: give more, or leave it out (--bitext)."
    )


def _describe_rare_tokens(start: Start, verdict: Verdict) -> str:
    """Say that a trained vocabulary is too large for its text; empty if it is not, or if more text is needed anyway."""
    tokens, size = start.vocabulary_size, start.corpus_bytes
    if not start.trained_vocabulary or size is None or not FEWEST_BYTES <= size < BYTES_PER_TOKEN * tokens:
        return ""
    if "vocab_size" in verdict.changes:
        return ""
    fitting = fitting_vocabulary(size)
    or_fewer = f", or at most {fitting:,} tokens (--vocab-size {fitting})" if fitting else ""
    return (
        f" The vocabulary is large for the text ({tokens:,} tokens for {format_size(size)}): many tokens occur fewer "
        f"than five times in it, too rarely to be learnt. Give more text, {format_size(BYTES_PER_TOKEN * tokens)} or "
        f"more{or_fewer}."
    )


def _judge_length(start: Start, text: TextCoverage) -> Verdict:
    """Judge a transfer whose tokenizer does not shorten the text."""
    size = start.vocabulary_size
    found = (
        f"The new tokenizer needs no fewer tokens for the text ({text.target_tokens:,}) than the model's own "
        f"({text.source_tokens:,})"
    )
    if size < SMALL_VOCABULARY:
        reason = f"{found}: its {size:,} tokens are probably too few. Give it a larger vocabulary (--vocab-size)."
        return Verdict("poor", reason, {"vocab_size": str(DEFAULT_VOCABULARY)})
    return Verdict(
        "poor",
        f"{found}: the text is probably not ordinary sentences, or in a language that the model knows, which needs no "
        "new vocabulary. Give text in the target language (--corpus), or train the model as it is.",
    )


def _unless_too_long(start: Start, verdict: Verdict) -> Verdict:
    """Return a verdict, but as open if the new tokenizer hardly shortens the text."""
    text = start.text
    if text is None or not _hardly_shortens(start):
        return verdict
    saved = (
        f"The new tokenizer saves only {1 - text.target_tokens / text.source_tokens:.0%} of the tokens "
        f"({text.target_tokens:,} instead of {text.source_tokens:,}): check that the text is ordinary sentences in the "
        "target language, or give it a larger vocabulary (--vocab-size)."
    )
    return replace(verdict, start="open", reason=f"{saved} {verdict.reason}")


def _compared_with_original(start: Start, *, is_known: bool = False) -> str:
    """Say how the model compares with the source model on the same text, as far as that was measured.

    Args:
        start: What is known about the transfer.
        is_known: Whether the sentence before has the model's own score.
    """
    own, original = start.own_score, start.original_score
    if own is None or original is None or start.text is None:
        return ""
    ratio = start.text.target_tokens / max(1, start.text.source_tokens)
    compared = f" Before any training, the model needs {own:.3f} bits per byte and {ratio:.0%} of the tokens"
    if is_known:
        compared = f" It needs {ratio:.0%} of the tokens"
    if own < original:
        return f"{compared}; the original model needs {original:.3f} bits per byte."
    return f"{compared}; the original model still needs less, {original:.3f}, so train the new one before you use it."


def _is_text_alone(start: Start) -> bool:
    """Whether tokens are built from the text and the two tokenizers alone."""
    if start.method == "fvt":
        return True  # whatever was given
    is_given = start.given is None or not MEANINGS.isdisjoint(start.given)
    return start.method == DEFAULT and not is_given and start.alignment is None


def _missing_evidence(start: Start) -> str:
    """Say which evidence to add if there are no translations at all."""
    given = start.given
    if given is None or not MEANINGS.isdisjoint(given):
        return ""
    has_source_text = not {"source_corpus", "source_vectors"}.isdisjoint(given)
    or_text = "" if has_source_text else ", or text in the model's language (--source-corpus)"
    return (
        f" Neither a dictionary nor parallel text was given: give the method {DEFAULT} a dictionary "
        f"(--dictionary){or_text}."
    )


def _complaint(start: Start) -> Verdict | None:
    """Return the verdict on evidence that is noise or missing; None if no test finds that."""
    hits = alignment_hits(start.alignment) if start.alignment else None
    if hits is not None and hits[0] < NOISE * hits[1]:
        has_translations = not set(TRANSLATIONS).isdisjoint(start.given or ())
        return Verdict(
            "poor",
            f"The aligned word vectors find a listed translation for {hits[0]} of {hits[1]} held-out words, so what "
            "they contribute is noise: give a larger dictionary, more text in both languages on similar topics, or "
            "pretrained vectors, or use the method blend, which does not align vectors if it has a dictionary.",
            {"method": DEFAULT if has_translations and start.method != DEFAULT else "fvt"},
        )
    if start.dictionary is not None and (reason := describe_useless_dictionary(start.dictionary)):
        return Verdict("poor", reason, {"dictionary": None})
    total = max(1, start.vocabulary_size)
    missing = start.text.origins.get("none", 0.0) if start.text else start.origins.get("none", 0) / total
    if missing > 0.5:
        return Verdict(
            "poor",
            f"There is no evidence for {missing:.0%} of the text: give more evidence, or use the method blend, which "
            f"combines all types.{_missing_evidence(start)}",
            _default_method(start),
        )
    return None


def _default_method(start: Start) -> dict[str, str | None]:
    """Return the change to the default method, unless it is in use already."""
    return {"method": DEFAULT} if start.method != DEFAULT else {}


def _explain_gain(gain: float | None) -> str:
    """Say where a gain comes from if it is not from the evidence that was found to be noise."""
    if gain is None or gain < GAIN:
        return ""
    return (
        f" What it gains over rows without evidence ({gain:.3f} bits per byte) comes from tokens that both "
        "vocabularies share and from the spelling of the others, which every transfer with the method blend or fvt "
        "uses, without any further evidence."
    )
