"""The verdict on a transfer: is this a good start, and why?

Scores before training do not predict the order of initialisations after it: rows from aligned word vectors may score
worse than random ones and overtake them within some fifty steps. With a unigram prior, random rows are even hard to
beat at the start: for English to Swahili, they score the same as rows from a correct dictionary. So the verdict rests
on tests of the evidence first, and on the scores second (the limits of a dictionary are in `dictionary_verdict.py`):

1. `poor`, if no transfer is needed: the model knows the language of the text (`KNOWN_LENGTH`); or if the evidence is
   noise or missing: the text is shorter than `SHORTEST_CORPUS`, or the new tokenizer does not shorten it, the aligned
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

If the sample of held-out text is too short (`FEWEST_BYTES` of `relexify.scoring`), shares of the text and scores are
noise. The verdict is then `poor` only by the tests that do not read the sample (of a baseline, the size of the corpus,
the vectors, and the translations in the dictionary), and `unknown` otherwise.

The rules are in this file, and their sentences in `verdict_texts.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from relexify.methods.registry import TRANSLATIONS
from relexify.scoring import FEWEST_BYTES
from relexify.storage.notes import read_as
from relexify.systems.transfer.assessment import verdict_texts as texts
from relexify.systems.transfer.assessment.dictionary_verdict import (
    describe_doubtful_dictionary,
    describe_sound_dictionary,
    describe_untested_dictionary,
    describe_useless_dictionary,
)
from relexify.systems.transfer.assessment.start import Start, TextCoverage
from relexify.systems.transfer.defaults import DEFAULT_METHOD, DEFAULT_VOCABULARY
from relexify.systems.transfer.tokenizer.vocabulary_size import BYTES_PER_TOKEN

__all__ = ["Verdict", "alignment_hits", "judge", "verdict_of"]

NOISE = 0.05
"""Precision at 1 below which aligned vectors are useless: 19 of 20 nearest words are wrong."""
ROUGH = 0.2
"""Precision at 1 below which they are imprecise."""
GAIN = 0.05
"""Bits per byte that evidence must gain over rows without it; the sample of held-out text decides on less."""

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
MOST = 0.5
"""Share of the text without any evidence above which a start is called poor. A choice, not a measurement."""
SHORTEST_CORPUS = 10_000
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
    if start.text is not None and start.text.bytes < FEWEST_BYTES:
        verdict = _judge_without_sample(start, start.text)
        return replace(verdict, reason=texts.join(verdict.reason, _describe_rare(start, verdict)))
    if start.text is not None and _knows_language(start, start.text):
        reason = texts.describe_known_language(start.text, start.own_score, start.original_score)
        return Verdict("poor", reason, is_needed=False)
    # The first rule that applies decides.
    verdict = (
        _reject_baseline(start)
        or _reject_text(start)
        or _reject_tokenizer(start)
        or _reject_evidence(start)
        or _accept_evidence(start)
        or _doubt_dictionary(start)
        or _judge_scores(start)
    )
    return replace(verdict, reason=texts.join(verdict.reason, _describe_bitext(start), _describe_rare(start, verdict)))


def verdict_of(notes: Mapping[str, Any]) -> Verdict | None:
    """Return the verdict that `relexify.json` has on the transfer of a model; None if there was none."""
    verdict = notes.get("verdict")
    return read_as(Verdict, verdict) if verdict else None


def alignment_hits(alignment: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return how many held-out words the aligned vectors translate, and how many were tested; None if none were."""
    quality = alignment["quality"]
    if quality is None:
        return None
    return round(max(quality["precision"], quality["csls_precision"]) * quality["words"]), quality["words"]


def _judge_without_sample(start: Start, text: TextCoverage) -> Verdict:
    """Judge a start by what does not rest on its sample of text, because that is too short."""
    # These leave no share of the text, and no score, that a rule could apply to.
    dictionary = None if start.dictionary is None else replace(start.dictionary, text_share=1.0)
    unsampled = replace(start, text=replace(text, origins={}), dictionary=dictionary, bits_per_byte={})
    not_scored = texts.describe_missing_scores(start.not_scored) if start.not_scored else ""
    reason = texts.join(not_scored, texts.describe_short_sample(text, start.sampled), _describe_missing(start))
    return (
        _reject_baseline(start)
        or _reject_text(start)
        or _find_useless_evidence(unsampled)
        or Verdict("unknown", reason)
    )


def _reject_baseline(start: Start) -> Verdict | None:
    """Call a start without any evidence poor."""
    has_evidence = any(count for origin, count in start.origins.items() if origin not in ("none", "special"))
    if has_evidence and start.method not in start.baseline_scores:
        return None
    reason = texts.join(texts.describe_baseline(start.method), _describe_missing(start))
    return Verdict("poor", reason, _default_method(start))


def _reject_text(start: Start) -> Verdict | None:
    """Call a start poor if there is too little text."""
    if start.corpus_bytes is None or start.corpus_bytes >= SHORTEST_CORPUS:
        return None
    return Verdict("poor", texts.describe_short_text(start.corpus_bytes))


def _reject_tokenizer(start: Start) -> Verdict | None:
    """Call a start poor if a new tokenizer, which replaces the model's own, does not shorten the text."""
    text = start.text
    if text is None or start.extension is not None or text.target_tokens < text.source_tokens:
        return None
    is_small = start.vocabulary_size < SMALL_VOCABULARY
    reason = texts.describe_longer_text(text, small_vocabulary=start.vocabulary_size if is_small else None)
    return Verdict("poor", reason, {"vocab_size": str(DEFAULT_VOCABULARY)} if is_small else {})


def _reject_evidence(start: Start) -> Verdict | None:
    """Call a start poor if its evidence is noise or missing; its scores do not change that, but are explained."""
    useless = _find_useless_evidence(start)
    if useless is None:
        return None
    gained = texts.explain_gain(start.gain) if start.gain is not None and start.gain >= GAIN else ""
    expected = ""
    if "dictionary" in useless.changes and start.own_score is not None:
        expected = texts.expect_without_dictionary(start.own_score)
    return replace(useless, reason=texts.join(useless.reason, gained, expected))


def _find_useless_evidence(start: Start) -> Verdict | None:
    """Return the verdict that evidence is noise or missing; None if no test finds that."""
    hits = alignment_hits(start.alignment) if start.alignment else None
    if hits is not None and hits[0] < NOISE * hits[1]:
        has_translations = not set(TRANSLATIONS).isdisjoint(start.given or ())
        method = DEFAULT_METHOD if has_translations and start.method != DEFAULT_METHOD else "fvt"
        return Verdict("poor", texts.describe_noise(*hits), {"method": method})
    if start.dictionary is not None and (reason := describe_useless_dictionary(start.dictionary)):
        return Verdict("poor", reason, {"dictionary": None})
    total = max(1, start.vocabulary_size)
    missing = start.text.origins.get("none", 0.0) if start.text else start.origins.get("none", 0) / total
    if missing > MOST:
        reason = texts.join(texts.describe_missing_evidence(missing), _describe_missing(start))
        return Verdict("poor", reason, _default_method(start))
    return None


def _accept_evidence(start: Start) -> Verdict | None:
    """Call a start good if its evidence passes a test."""
    hits = alignment_hits(start.alignment) if start.alignment else None
    passed = ""
    if hits is not None and hits[0] >= ROUGH * hits[1]:
        passed = texts.describe_sound_vectors(*hits)
    elif start.dictionary is not None:
        passed = describe_sound_dictionary(start.dictionary)
    if not passed:
        return None
    baselines = ""
    if scores := start.baseline_scores:
        small_gain = start.gain if start.gain is not None and start.gain < GAIN else None
        baselines = texts.describe_baseline_scores(scores, small_gain=small_gain, has_prior=start.has_prior)
    return _doubt_tokenizer(start, Verdict("good", texts.join(passed, texts.compare_with_original(start), baselines)))


def _doubt_dictionary(start: Start) -> Verdict | None:
    """Call a start open if some translations may be wrong, or too few can be tested, whatever the score."""
    doubt = ""
    if start.dictionary is not None:
        doubt = describe_doubtful_dictionary(start.dictionary, start.corpus_bytes)
    if not doubt:
        return None
    best, own, compared = start.best_baseline, start.own_score, ""
    if best is not None and own is not None and best < own:
        compared = texts.explain_better_baseline(start.baseline_scores, own)
    return Verdict("open", texts.join(doubt, compared))


def _judge_scores(start: Start) -> Verdict:
    """Judge a start whose evidence could not be tested, by its score compared with rows without evidence."""
    own, gain = start.own_score, start.gain
    untested = "" if start.dictionary is None else describe_untested_dictionary(start.dictionary)
    if own is None or gain is None:
        missing = texts.describe_missing_scores(start.not_scored)
        return Verdict("unknown", texts.join(missing, untested, _describe_missing(start)))
    if gain >= GAIN:
        reason = texts.join(
            texts.describe_gain(own, start.baseline_scores, is_text_alone=_is_text_alone(start)),
            texts.compare_with_original(start, is_known=True),
        )
        return _doubt_tokenizer(start, Verdict("good", reason))
    no_gain = texts.describe_no_gain(own, start.baseline_scores, gain)
    return Verdict("open", texts.join(no_gain, untested, _describe_missing(start)))


def _knows_language(start: Start, text: TextCoverage) -> bool:
    """Whether the model was trained on the language of the text, so that a new vocabulary hardly shortens it.

    Its tokenizer then needs few tokens for a word, and it predicts the text better than with the new vocabulary.
    """
    own, original = start.own_score, start.original_score
    if not _hardly_shortens(start):
        return False
    is_better = own is None or original is None or original < own
    return is_better and text.source_tokens < KNOWN_LENGTH[text.unit] * text.words


def _hardly_shortens(start: Start) -> bool:
    """Whether a new tokenizer, which replaces the model's own, saves less than `LITTLE_SAVING` of the tokens."""
    text = start.text
    if text is None or start.extension is not None:
        return False
    return text.target_tokens > (1 - LITTLE_SAVING) * text.source_tokens


def _doubt_tokenizer(start: Start, verdict: Verdict) -> Verdict:
    """Return a verdict, with its start called open if the new tokenizer hardly shortens the text."""
    if start.text is None or not _hardly_shortens(start):
        return verdict
    return replace(verdict, start="open", reason=texts.join(texts.describe_little_saving(start.text), verdict.reason))


def _is_text_alone(start: Start) -> bool:
    """Whether tokens are built from the text and the two tokenizers alone."""
    if start.method == "fvt":
        return True  # it uses no evidence, whatever was given
    is_given = start.given is None or not MEANINGS.isdisjoint(start.given)
    return start.method == DEFAULT_METHOD and not is_given and start.alignment is None


def _default_method(start: Start) -> dict[str, str | None]:
    """Return the change to the default method, unless it is in use already."""
    return {"method": DEFAULT_METHOD} if start.method != DEFAULT_METHOD else {}


def _describe_missing(start: Start) -> str:
    """Say which evidence to add if there are no translations at all."""
    given = start.given
    if given is None or not MEANINGS.isdisjoint(given):
        return ""
    return texts.ask_for_evidence(has_source_text=not {"source_corpus", "source_vectors"}.isdisjoint(given))


def _describe_bitext(start: Start) -> str:
    """Say what parallel text contributes, if there is any."""
    check = start.bitext
    if check is None:
        return ""
    is_other = check.overlap is not None and check.overlap < LITTLE_OVERLAP
    return texts.describe_bitext(check, little_overlap=check.overlap if is_other else None)


def _describe_rare(start: Start, verdict: Verdict) -> str:
    """Say that a trained vocabulary is too large for its text, unless more text or tokens are needed anyway."""
    tokens, size = start.vocabulary_size, start.corpus_bytes
    if not start.trained_vocabulary or size is None or not SHORTEST_CORPUS <= size < BYTES_PER_TOKEN * tokens:
        return ""
    return "" if "vocab_size" in verdict.changes else texts.describe_rare_tokens(tokens, size)
