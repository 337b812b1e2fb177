"""The verdict on a transfer: is this a good start, and why?

Scores before training do not predict the order of initialisations after it: rows from aligned word vectors may score
worse than random ones and overtake them within some fifty steps. With a unigram prior, random rows are even hard to
beat at the start: for English to Swahili, they score the same as rows from a correct dictionary. So the verdict uses
tests of the evidence first, and scores second (the limits for a dictionary are in `dictionary_verdict.py`):

1. `poor`, if no transfer is needed, because the model knows the language (`KNOWN_LANGUAGE_LENGTH`).
2. `poor`, if the method uses no evidence; if the text is shorter than `SHORTEST_CORPUS`; or if the new tokenizer does
   not shorten it.
3. `poor`, if the evidence is noise or missing: the aligned vectors translate fewer than `LEAST_USABLE_PRECISION` of
   held-out words; the dictionary translates less than `LEAST_TRANSLATED_TEXT` of the text although it is not small
   (`LEAST_MATCHING_SHARE`); its translations are related as by chance (`CHANCE_STANDARD_ERRORS`); or more than
   `MOST_TEXT_WITHOUT_EVIDENCE` of the text has no evidence.
4. `good`, if the evidence passes its test: the vectors translate `LEAST_GOOD_PRECISION` of held-out words or more, or
   the translations in the dictionary are related in `LEAST_RELATED_SHARE` of cases or more.
5. `open`, if the translations are related in fewer cases, so that some may be wrong, whatever the score; or if the
   dictionary is too small to test it.
6. `unknown`, if nothing was tested or scored.
7. `good`, if the model predicts the text better than with rows without evidence, by `LEAST_EVIDENCE_GAIN` bits per byte
   or more.
8. `open` otherwise.

A `good` start becomes `open` if the new tokenizer hardly shortens the text (`LEAST_TOKENS_SAVED`). Every verdict also
says what parallel text contributes, and whether the vocabulary is too large for the text.

If the sample of held-out text is too short (`FEWEST_BYTES` of `relexify.scoring`), shares of the text and scores are
noise. The verdict is then `poor` only by tests that do not read the sample (the method, the size of the corpus, the
vectors, and the translations in the dictionary), and `unknown` otherwise.

Each rule has its sentences beside it. A verdict keeps them apart, so that reports need not split a text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from relexify.methods.registry import TRANSLATIONS
from relexify.scoring import FEWEST_BYTES, RELIABLE_BYTES
from relexify.storage.files import format_size
from relexify.storage.notes import read_as
from relexify.systems.transfer.assessment.dictionary_verdict import (
    describe_doubtful_dictionary,
    describe_sound_dictionary,
    describe_untested_dictionary,
    describe_useless_dictionary,
)
from relexify.systems.transfer.assessment.start import BASELINES, Start, TextCoverage
from relexify.systems.transfer.defaults import DEFAULT_METHOD, DEFAULT_VOCABULARY
from relexify.systems.transfer.tokenizer.vocabulary_size import LEAST_BYTES_PER_TOKEN, fitting_vocabulary

__all__ = ["Verdict", "alignment_hits", "judge", "recognise_language", "verdict_of"]

LEAST_USABLE_PRECISION = 0.05
"""Precision at 1 below which aligned vectors are useless: 19 of 20 nearest words are wrong."""
LEAST_GOOD_PRECISION = 0.2
"""Precision at 1 below which they are imprecise."""
LEAST_EVIDENCE_GAIN = 0.05
"""Bits per byte that evidence must gain over rows without it; the sample of held-out text decides on less."""

MEANING_OPTIONS = frozenset({*TRANSLATIONS, "rotation", "donor"})
"""Options with evidence of what target words mean in the source language."""
FEWEST_VOCABULARY_TOKENS = 4_000
"""Tokens below which a vocabulary that does not shorten the text is called too small. A choice, not a measurement."""
LEAST_TOKENS_SAVED = 0.1
"""Share of the tokens that a vocabulary for the language of the text saves at least: 8,000 tokens save 47 % in Swahili
and 41 % in German, with the tokenizer of SmolLM2 as the original, but 4 % in a dictionary that is given as text."""
KNOWN_LANGUAGE_LENGTH = {"word": 1.8, "character": 1.0}
"""Tokens of the model's own tokenizer per word, or per character of a script without spaces, below which it was trained
on the language of the text. SmolLM2's, which was trained on English, needs 1.15 to 1.67 per word in six English
texts, 2.22 to 2.59 in four German ones, 2.68 to 2.78 in Swahili and 10.75 in Uyghur, and 1.41 to 1.96 per character in
Chinese. The limit per character is a choice: no tokenizer that was trained on such a language was measured."""
LEAST_BITEXT_OVERLAP = 0.25
"""Share of the words of the text below which parallel text is small, or in another language. With 300 pairs or more, it
has from 0.27 (German) to 0.91 (Swahili); parallel text of another language has up to 0.21."""
MOST_TEXT_WITHOUT_EVIDENCE = 0.5
"""Share of the text without any evidence above which a start is called poor. A choice, not a measurement."""
SHORTEST_CORPUS = 10_000
"""Bytes of text below which a start is called poor: one to two thousand words. A choice, not a measurement."""

Level = Literal["good", "open", "poor", "unknown"]

_HEADLINES: Mapping[Level, str] = {
    "good": "This is a good start.",
    "open": "Open: the tests do not show whether this is a good start.",
    "poor": "This is a poor start.",
    "unknown": "It is not known whether this is a good start.",
}


@dataclass(frozen=True)
class Verdict:
    """Whether a transferred model is a good start for training.

    Attributes:
        start: `good`, `open`, `poor` or `unknown`.
        finding: The sentence that says what decided this.
        details: Further sentences: the scores, what else was found, and what to do about it.
        changes: Options of another transfer that may be a better start, by name; None leaves one out.
        is_needed: Whether a transfer is needed: not, if the model knows the language of the text.
    """

    start: Level
    finding: str
    details: tuple[str, ...] = ()
    changes: Mapping[str, str | None] = field(default_factory=dict)
    is_needed: bool = True

    @classmethod
    def of(cls, start: Level, sentences: Iterable[str], changes: Mapping[str, str | None] | None = None) -> Verdict:
        """Return a verdict with the first sentence as its finding; empty sentences are left out."""
        finding, *details = filter(None, sentences)
        return cls(start, finding, tuple(details), changes or {})

    @property
    def headline(self) -> str:
        """The verdict in a sentence, without its reason."""
        return _HEADLINES[self.start] if self.is_needed else "A transfer is probably not needed."

    @property
    def reason(self) -> str:
        """All sentences of the reason as one text."""
        return " ".join((self.finding, *self.details))


def judge(start: Start) -> Verdict:
    """Judge a transfer by its evidence and its scores before training."""
    text = start.text
    if text is not None and text.bytes < FEWEST_BYTES:
        verdict = _judge_without_sample(start, text)
        return _with_details(verdict, *_describe_rare_tokens(start, verdict))
    if text is not None and _knows_language(start, text):
        return _reject_transfer(start, text)
    # The first rule that applies decides.
    verdict = (
        _reject_baseline(start)
        or _reject_corpus(start)
        or _reject_tokenizer(start)
        or _reject_evidence(start)
        or _accept_evidence(start)
        or _doubt_dictionary(start)
        or _judge_scores(start)
    )
    return _with_details(verdict, *_describe_bitext(start), *_describe_rare_tokens(start, verdict))


def verdict_of(notes: Mapping[str, Any]) -> Verdict | None:
    """Return the verdict that `relexify.json` has on the transfer of a model; None if there was none."""
    notes_of_verdict = notes.get("verdict")
    if not notes_of_verdict:
        return None
    verdict = read_as(Verdict, notes_of_verdict)
    return replace(verdict, details=tuple(verdict.details))


def alignment_hits(alignment: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return how many held-out words the aligned vectors translate, and how many were tested; None if none were."""
    quality = alignment["quality"]
    if quality is None:
        return None
    return round(max(quality["precision"], quality["csls_precision"]) * quality["words"]), quality["words"]


def recognise_language(tokens_per_word: float, unit: str = "word") -> str:
    """Say that the model seems to know the language of the text, without the full stop.

    Args:
        tokens_per_word: What its own tokenizer needs.
        unit: As in `TextCoverage`.
    """
    return (
        "The model seems to know the language of this text already: its own tokenizer needs only "
        f"{tokens_per_word:.2f} tokens per {unit}, as for a language that it was trained on"
    )


def _judge_without_sample(start: Start, text: TextCoverage) -> Verdict:
    """Judge a start without its sample of text, because the sample is too short."""
    # Switch off every rule that reads the sample.
    dictionary = None if start.dictionary is None else replace(start.dictionary, text_share=1.0)
    unsampled = replace(start, text=replace(text, origins={}), dictionary=dictionary, bits_per_byte={})
    if verdict := _reject_baseline(start) or _reject_corpus(start) or _find_useless_evidence(unsampled):
        return verdict
    found = f"Only {text.bytes:,} bytes of {start.sampled} were examined; fewer than {FEWEST_BYTES} are too few for a "
    found += "verdict"
    remedy = (
        f"give other text of {RELIABLE_BYTES:,} bytes or more to score on (--held-out), or more text (--corpus), one "
        "line in 100 of which is held out"
    )
    if start.sampled != "held-out text":
        remedy = "give more text (--corpus)"
    elif text.whole_bytes is not None and text.whole_bytes >= RELIABLE_BYTES:
        remedy = f"score more of it (--set held_out_bytes={2 * RELIABLE_BYTES})"
    not_scored = _describe_missing_scores(start) if start.not_scored else ""
    return Verdict.of("unknown", (not_scored, f"{found}: {remedy}.", _ask_for_evidence(start)))


def _knows_language(start: Start, text: TextCoverage) -> bool:
    """Whether the model was trained on the language of the text, so that a new vocabulary hardly shortens it.

    Its tokenizer then needs few tokens for a word, and it predicts the text better than with the new vocabulary.
    """
    own, original = start.own_score, start.original_score
    is_better = own is None or original is None or original < own
    return is_better and _hardly_shortens(start) and text.source_tokens < KNOWN_LANGUAGE_LENGTH[text.unit] * text.words


def _reject_transfer(start: Start, text: TextCoverage) -> Verdict:
    """Say that no transfer is needed, and what to do instead."""
    own, original, scores = start.own_score, start.original_score, ""
    if own is not None and original is not None:
        scores = f"It predicts the text with {original:.3f} bits per byte, and after this transfer with {own:.3f}."
    known = recognise_language(text.source_tokens / text.words, text.unit)
    verdict = Verdict.of(
        "poor",
        (
            f"{known}, and the new one {text.target_tokens / text.words:.2f}.",
            scores,
            "Train the model itself (relexify train), or remove the tokens that you do not need (relexify prune).",
            "For the terms of a special field, add tokens (--keep-source).",
            "If you want another language, give text in it (--corpus).",
        ),
    )
    return replace(verdict, is_needed=False)


def _reject_baseline(start: Start) -> Verdict | None:
    """Call a start without any evidence poor."""
    has_evidence = any(count for origin, count in start.origins.items() if origin not in ("none", "special"))
    if has_evidence and start.method not in start.baseline_scores:
        return None
    found = f"{start.method} uses no evidence; it is a baseline to compare with."
    return Verdict.of("poor", (found, _ask_for_evidence(start)), _default_method(start))


def _reject_corpus(start: Start) -> Verdict | None:
    """Call a start poor if there is too little text."""
    if start.corpus_bytes is None or start.corpus_bytes >= SHORTEST_CORPUS:
        return None
    found = (
        f"The text has only {start.corpus_bytes / 1000:.1f} kB, which is too little to learn a vocabulary or a "
        "language from: give some hundred kB at least."
    )
    return Verdict("poor", found)


def _reject_tokenizer(start: Start) -> Verdict | None:
    """Call a start poor if a new tokenizer, which replaces the model's own, does not shorten the text."""
    text = start.text
    if text is None or start.extension is not None or text.target_tokens < text.source_tokens:
        return None
    found = (
        f"The new tokenizer needs no fewer tokens for the text ({text.target_tokens:,}) than the model's own "
        f"({text.source_tokens:,})"
    )
    if start.vocabulary_size < FEWEST_VOCABULARY_TOKENS:
        found += f": its {start.vocabulary_size:,} tokens are probably too few."
        changes = {"vocab_size": str(DEFAULT_VOCABULARY)}
        return Verdict("poor", found, ("Give it a larger vocabulary (--vocab-size).",), changes)
    found += (
        ": the text is probably not ordinary sentences, or in a language that the model knows, which needs no "
        "new vocabulary."
    )
    return Verdict("poor", found, ("Give text in the target language (--corpus), or train the model as it is.",))


def _reject_evidence(start: Start) -> Verdict | None:
    """Call a start poor if its evidence is noise or missing; its scores do not change that, but are explained."""
    useless = _find_useless_evidence(start)
    if useless is None:
        return None
    gained, expected = "", ""
    if start.gain is not None and start.gain >= LEAST_EVIDENCE_GAIN:
        gained = (
            f"The gain over rows without evidence ({start.gain:.3f} bits per byte) comes from tokens that both "
            "vocabularies share, and from spelling: the methods blend and fvt use these without any further evidence."
        )
    if "dictionary" in useless.changes and start.own_score is not None:
        expected = (
            f"Without the dictionary, the score before training may be about the same ({start.own_score:.3f}): it does "
            "not predict the score after training."
        )
    return _with_details(useless, gained, expected)


def _find_useless_evidence(start: Start) -> Verdict | None:
    """Return the verdict that evidence is noise or missing; None if no test finds that."""
    hits = alignment_hits(start.alignment) if start.alignment else None
    if hits is not None and hits[0] < LEAST_USABLE_PRECISION * hits[1]:
        found = (
            f"The aligned word vectors find a listed translation for {hits[0]} of {hits[1]} held-out words, so they "
            "are noise: give a larger dictionary, more text in both languages on similar topics, or pretrained "
            "vectors, or use the method blend, which does not align vectors if it has a dictionary."
        )
        has_translations = not set(TRANSLATIONS).isdisjoint(start.given or ())
        method = DEFAULT_METHOD if has_translations and start.method != DEFAULT_METHOD else "fvt"
        return Verdict("poor", found, changes={"method": method})
    if start.dictionary is not None and (sentences := describe_useless_dictionary(start.dictionary)):
        return Verdict.of("poor", sentences, {"dictionary": None})
    total = max(1, start.vocabulary_size)
    missing = start.text.origins.get("none", 0.0) if start.text else start.origins.get("none", 0) / total
    if missing > MOST_TEXT_WITHOUT_EVIDENCE:
        found = (
            f"There is no evidence for {missing:.0%} of the text: give more evidence, or use the method blend, which "
            "combines all types."
        )
        return Verdict.of("poor", (found, _ask_for_evidence(start)), _default_method(start))
    return None


def _default_method(start: Start) -> dict[str, str | None]:
    """Return the change to the default method, unless it is in use already."""
    return {"method": DEFAULT_METHOD} if start.method != DEFAULT_METHOD else {}


def _accept_evidence(start: Start) -> Verdict | None:
    """Call a start good if its evidence passes a test."""
    hits = alignment_hits(start.alignment) if start.alignment else None
    passed: tuple[str, ...] = ()
    if hits is not None and hits[0] >= LEAST_GOOD_PRECISION * hits[1]:
        passed = (f"The aligned word vectors find a listed translation for {hits[0]} of {hits[1]} held-out words.",)
    elif start.dictionary is not None:
        passed = describe_sound_dictionary(start.dictionary)
    if not passed:
        return None
    sentences = (*passed, _compare_with_original(start), *_describe_baseline_scores(start))
    return _doubt_tokenizer(start, Verdict.of("good", sentences))


def _describe_baseline_scores(start: Start) -> tuple[str, ...]:
    """Say how rows without evidence score, and what a gain over them says if it is small; nothing without scores."""
    baselines, gain = start.baseline_scores, start.gain
    if not baselines:
        return ()
    known = ", but with the frequencies of the tokens in the text" if start.has_prior else ""
    others = f"Without evidence{known}, it needs {_list_scores(baselines)}."
    if gain is None or gain >= LEAST_EVIDENCE_GAIN:
        return (others,)
    less = "less" if gain < 0 else "hardly more"
    common = (
        f"That it needs {less} with {_best(baselines)} is common and says little: rows from evidence usually lead "
        "early in training."
    )
    return others, common


def _doubt_dictionary(start: Start) -> Verdict | None:
    """Call a start open if some translations may be wrong, or too few can be tested, whatever the score."""
    doubt: tuple[str, ...] = ()
    if start.dictionary is not None:
        doubt = describe_doubtful_dictionary(start.dictionary, start.corpus_bytes)
    if not doubt:
        return None
    best, own = start.best_baseline, start.own_score
    compared: tuple[str, ...] = ()
    if best is not None and own is not None and best < own:
        compared = (
            f"Before training, the model needs less with {_best(start.baseline_scores)} ({best:.3f}, against {own:.3f} "
            "bits per byte).",
            "This is common, and does not predict which are better after training.",
        )
    return Verdict.of("open", (*doubt, *compared))


def _judge_scores(start: Start) -> Verdict:
    """Judge a start by its score, compared with rows without evidence, because its evidence could not be tested."""
    own, gain = start.own_score, start.gain
    untested = () if start.dictionary is None else describe_untested_dictionary(start.dictionary)
    if own is None or gain is None:
        return Verdict.of("unknown", (_describe_missing_scores(start), *untested, _ask_for_evidence(start)))
    scores = _list_scores(start.baseline_scores)
    if gain >= LEAST_EVIDENCE_GAIN:
        works = "the evidence works"
        if _is_text_alone(start):
            works = "spelling, and tokens that both vocabularies have, help"
        gained = f"Before any training, the model needs {own:.3f} bits per byte, against {scores}: {works}."
        return _doubt_tokenizer(start, Verdict.of("good", (gained, _compare_with_original(start, is_known=True))))
    better = f"only {gain:.3f} bits per byte better than without evidence, too little to tell"
    if gain < 0.0005:  # 0.000 as it is shown
        better = "no better than without evidence"
    no_gain = (
        f"Before training, it predicts the text {better} ({own:.3f} bits per byte, against {scores}).",
        "Good evidence often starts like this and shows within the first steps: train two methods for a short time "
        "(relexify advise) before you train one for long.",
    )
    return Verdict.of("open", (*no_gain, *untested, _ask_for_evidence(start)))


def _is_text_alone(start: Start) -> bool:
    """Whether tokens are built from the text and the two tokenizers alone."""
    if start.method == "fvt":
        return True  # it uses no evidence, whatever was given
    is_given = start.given is None or not MEANING_OPTIONS.isdisjoint(start.given)
    return start.method == DEFAULT_METHOD and not is_given and start.alignment is None


def _describe_missing_scores(start: Start) -> str:
    """Say that nothing was scored, and why if it is known."""
    reason = f": {start.not_scored}" if start.not_scored else " before training"
    return f"The model was not scored{reason}."


def _compare_with_original(start: Start, *, is_known: bool = False) -> str:
    """Say how the model compares with the source model on the same text, as far as that was measured.

    Args:
        start: What is known about the transfer.
        is_known: Whether the sentence before it gives the model's own score.
    """
    own, original = start.own_score, start.original_score
    if own is None or original is None or start.text is None:
        return ""
    tokens = f"{start.text.target_tokens:,} tokens for the text instead of {start.text.source_tokens:,}"
    compared = f"Before any training, the model needs {own:.3f} bits per byte, and {tokens}"
    if is_known:
        compared = f"It needs {tokens}"
    if own < original:
        return f"{compared}; the original model needs {original:.3f} bits per byte."
    return f"{compared}; the original model still needs less, {original:.3f}, so train the new one before you use it."


def _best(baselines: Mapping[str, float]) -> str:
    return BASELINES[min(baselines, key=lambda name: baselines[name])]


def _list_scores(baselines: Mapping[str, float]) -> str:
    return " and ".join(f"{value:.3f} with {BASELINES[name]}" for name, value in baselines.items())


def _hardly_shortens(start: Start) -> bool:
    """Whether a new tokenizer, which replaces the model's own, saves less than `LEAST_TOKENS_SAVED` of the tokens."""
    text = start.text
    if text is None or start.extension is not None:
        return False
    return text.target_tokens > (1 - LEAST_TOKENS_SAVED) * text.source_tokens


def _doubt_tokenizer(start: Start, verdict: Verdict) -> Verdict:
    """Return a verdict, with its start called open if the new tokenizer hardly shortens the text."""
    text = start.text
    if text is None or not _hardly_shortens(start):
        return verdict
    doubt = (
        f"The new tokenizer saves only {1 - text.target_tokens / text.source_tokens:.0%} of the tokens "
        f"({text.target_tokens:,} instead of {text.source_tokens:,}): check that the text is ordinary sentences in the "
        "target language, or give it a larger vocabulary (--vocab-size)."
    )
    return replace(verdict, start="open", finding=doubt, details=(verdict.finding, *verdict.details))


def _ask_for_evidence(start: Start) -> str:
    """Say which evidence to add if there are no translations at all."""
    given = start.given
    if given is None or not MEANING_OPTIONS.isdisjoint(given):
        return ""
    has_source_text = not {"source_corpus", "source_vectors"}.isdisjoint(given)
    or_text = "" if has_source_text else ", or text in the model's language (--source-corpus)"
    return (
        f"Neither a dictionary nor parallel text was given: give the method {DEFAULT_METHOD} a dictionary "
        f"(--dictionary){or_text}."
    )


def _describe_bitext(start: Start) -> tuple[str, ...]:
    """Say what parallel text contributes, if there is any, and whether it has few of the words of the text."""
    check = start.bitext
    if check is None:
        return ()
    pairs = "one pair" if check.pairs == 1 else f"{check.pairs:,} pairs"
    found = f"Parallel text ({pairs}) gives meanings to {check.tokens:,} tokens, {check.text_share:.0%} of the text"
    if check.shared is not None:
        found += f"; the dictionary has {check.shared:,} of these tokens too"
    if check.overlap is None or check.overlap >= LEAST_BITEXT_OVERLAP:
        return (f"{found}.",)
    other = (
        f"But it has only {check.overlap:.0%} of the words of the text, so it is small, or in another language: give "
        "more, or leave it out (--bitext)."
    )
    return f"{found}.", other


def _describe_rare_tokens(start: Start, verdict: Verdict) -> tuple[str, ...]:
    """Say that a trained vocabulary is too large for its text, unless more text or tokens are needed anyway."""
    tokens, size = start.vocabulary_size, start.corpus_bytes
    if not start.trained_vocabulary or size is None or not SHORTEST_CORPUS <= size < LEAST_BYTES_PER_TOKEN * tokens:
        return ()
    if "vocab_size" in verdict.changes:
        return ()
    fitting = fitting_vocabulary(size)
    or_fewer = f", or at most {fitting:,} tokens (--vocab-size {fitting})" if fitting else ""
    return (
        f"The vocabulary is large for the text ({tokens:,} tokens for {format_size(size)}): many tokens occur fewer "
        "than five times in it, too rarely to be learnt.",
        f"Give more text, {format_size(LEAST_BYTES_PER_TOKEN * tokens)} or more{or_fewer}.",
    )


def _with_details(verdict: Verdict, *sentences: str) -> Verdict:
    """Return a verdict with further details; empty ones are left out."""
    return replace(verdict, details=(*verdict.details, *filter(None, sentences)))
