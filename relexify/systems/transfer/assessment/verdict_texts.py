"""The sentences of a verdict on a transfer; `verdict.py` decides which of them apply.

Each function returns whole sentences, which `join` puts together.
"""

from __future__ import annotations

from collections.abc import Mapping

from relexify.scoring import FEWEST_BYTES, RELIABLE_BYTES
from relexify.storage.files import format_size
from relexify.systems.transfer.assessment.start import BASELINES, BitextCheck, Start, TextCoverage
from relexify.systems.transfer.defaults import DEFAULT_METHOD
from relexify.systems.transfer.tokenizer.vocabulary_size import BYTES_PER_TOKEN, fitting_vocabulary

__all__ = [
    "ask_for_evidence",
    "compare_with_original",
    "describe_baseline",
    "describe_baseline_scores",
    "describe_bitext",
    "describe_gain",
    "describe_known_language",
    "describe_little_saving",
    "describe_longer_text",
    "describe_missing_evidence",
    "describe_missing_scores",
    "describe_no_gain",
    "describe_noise",
    "describe_rare_tokens",
    "describe_short_sample",
    "describe_short_text",
    "describe_sound_vectors",
    "expect_without_dictionary",
    "explain_better_baseline",
    "explain_gain",
    "join",
    "recognise_language",
]


def join(*sentences: str) -> str:
    """Return sentences one after the other, without empty ones."""
    return " ".join(filter(None, sentences))


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


def describe_known_language(text: TextCoverage, own: float | None, original: float | None) -> str:
    """Say that no transfer is needed, and what to do instead.

    Args:
        text: The text under both tokenizers.
        own: Bits per byte after the transfer, if they were measured.
        original: Those of the source model, if they were measured.
    """
    known = recognise_language(text.source_tokens / text.words, text.unit)
    scores = ""
    if own is not None and original is not None:
        scores = f"It predicts the text with {original:.3f} bits per byte, and after this transfer with {own:.3f}."
    return join(
        f"{known}, and the new one {text.target_tokens / text.words:.2f}.",
        scores,
        "Train the model as it is (relexify train), or remove the tokens that you do not need (relexify prune). For "
        "the terms of a special field, add tokens (--keep-source). If this is not the language that you want, give "
        "text in that one (--corpus).",
    )


def describe_baseline(method: str) -> str:
    """Say that a method uses no evidence."""
    return f"{method} uses no evidence; it is a baseline to compare with."


def ask_for_evidence(*, has_source_text: bool) -> str:
    """Say which evidence to add to a transfer without translations."""
    or_text = "" if has_source_text else ", or text in the model's language (--source-corpus)"
    return (
        f"Neither a dictionary nor parallel text was given: give the method {DEFAULT_METHOD} a dictionary "
        f"(--dictionary){or_text}."
    )


def describe_short_text(size: int) -> str:
    """Say that there is too little text, by its bytes."""
    return (
        f"The text has only {size / 1000:.1f} kB, which is too little to learn a vocabulary or a "
        "language from: give some hundred kB at least."
    )


def describe_short_sample(text: TextCoverage, sampled: str) -> str:
    """Say that too little text was examined for a verdict, and how to examine more.

    Args:
        text: The sample.
        sampled: What it is a sample of, see `Start.sampled`.
    """
    found = f"Only {text.bytes:,} bytes of {sampled} were examined; fewer than {FEWEST_BYTES} are too few for a verdict"
    if sampled != "held-out text":
        return f"{found}: give more text (--corpus)."
    if text.whole_bytes is not None and text.whole_bytes >= RELIABLE_BYTES:
        return f"{found}: score more of it (--set held_out_bytes={2 * RELIABLE_BYTES})."
    return (
        f"{found}: give other text of {RELIABLE_BYTES:,} bytes or more to score on (--held-out), or more text "
        "(--corpus), one line in 100 of which is held out."
    )


def describe_longer_text(text: TextCoverage, *, small_vocabulary: int | None) -> str:
    """Say that the new tokenizer does not shorten the text, and why.

    Args:
        text: The text under both tokenizers.
        small_vocabulary: The number of tokens if they are too few, else None.
    """
    found = (
        f"The new tokenizer needs no fewer tokens for the text ({text.target_tokens:,}) than the model's own "
        f"({text.source_tokens:,})"
    )
    if small_vocabulary is not None:
        few = f"its {small_vocabulary:,} tokens are probably too few"
        return f"{found}: {few}. Give it a larger vocabulary (--vocab-size)."
    return (
        f"{found}: the text is probably not ordinary sentences, or in a language that the model knows, which needs no "
        "new vocabulary. Give text in the target language (--corpus), or train the model as it is."
    )


def describe_little_saving(text: TextCoverage) -> str:
    """Say that the new tokenizer hardly shortens the text."""
    return (
        f"The new tokenizer saves only {1 - text.target_tokens / text.source_tokens:.0%} of the tokens "
        f"({text.target_tokens:,} instead of {text.source_tokens:,}): check that the text is ordinary sentences in the "
        "target language, or give it a larger vocabulary (--vocab-size)."
    )


def describe_noise(right: int, words: int) -> str:
    """Say that aligned vectors translate hardly any of the words that were held out."""
    return (
        f"The aligned word vectors find a listed translation for {right} of {words} held-out words, so what "
        "they contribute is noise: give a larger dictionary, more text in both languages on similar topics, or "
        "pretrained vectors, or use the method blend, which does not align vectors if it has a dictionary."
    )


def describe_missing_evidence(missing: float) -> str:
    """Say which share of the text has no evidence."""
    return (
        f"There is no evidence for {missing:.0%} of the text: give more evidence, or use the method blend, which "
        "combines all types."
    )


def describe_sound_vectors(right: int, words: int) -> str:
    """Say that aligned vectors translate enough of the words that were held out."""
    return f"The aligned word vectors find a listed translation for {right} of {words} held-out words."


def explain_gain(gain: float) -> str:
    """Say where a gain comes from if not from the evidence, which was found to be noise."""
    return (
        f"What it gains over rows without evidence ({gain:.3f} bits per byte) comes from tokens that both "
        "vocabularies share and from the spelling of the others, which every transfer with the method blend or fvt "
        "uses, without any further evidence."
    )


def expect_without_dictionary(own: float) -> str:
    """Say what to expect of the score if a useless dictionary is left out."""
    return (
        f"Without the dictionary, the score before training may be about the same ({own:.3f}): it does not predict the "
        "one after training."
    )


def describe_baseline_scores(baselines: Mapping[str, float], *, small_gain: float | None, has_prior: bool) -> str:
    """Say how rows without evidence score, and what a gain over them says if it is small.

    Args:
        baselines: Bits per byte of rows without evidence, by name; not empty.
        small_gain: The gain if it is small or negative, else None.
        has_prior: Whether they have a unigram prior.
    """
    known = ", but with the frequencies of the tokens in the text" if has_prior else ""
    others = f"Without evidence{known}, it needs {_list_scores(baselines)}."
    if small_gain is None:
        return others
    less = "less" if small_gain < 0 else "hardly more"
    return (
        f"{others} That it needs {less} with {_best(baselines)} is common and says little: rows from evidence usually "
        "lead early in training."
    )


def explain_better_baseline(baselines: Mapping[str, float], own: float) -> str:
    """Say that rows without evidence score better than those from a doubtful dictionary, and what that means."""
    best = _best(baselines)
    return (
        f"Before training, the model needs less with {best} ({min(baselines.values()):.3f}, against {own:.3f} bits per "
        "byte). This is common, and does not predict which are better after training."
    )


def compare_with_original(start: Start, *, is_known: bool = False) -> str:
    """Say how the model compares with the source model on the same text, as far as that was measured.

    Args:
        start: What is known about the transfer.
        is_known: Whether the sentence before has the model's own score.
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


def describe_missing_scores(not_scored: str | None) -> str:
    """Say that nothing was scored, and why if it is known."""
    reason = f": {not_scored}" if not_scored else " before training"
    return f"The model was not scored{reason}."


def describe_gain(own: float, baselines: Mapping[str, float], *, is_text_alone: bool) -> str:
    """Say that rows from evidence score better than rows without it.

    Args:
        own: Bits per byte of the model.
        baselines: Those of rows without evidence, by name.
        is_text_alone: Whether tokens are built from the text and the two tokenizers alone.
    """
    works = "spelling, and tokens that both vocabularies have, help" if is_text_alone else "the evidence works"
    return f"Before any training, the model needs {own:.3f} bits per byte, against {_list_scores(baselines)}: {works}."


def describe_no_gain(own: float, baselines: Mapping[str, float], gain: float) -> str:
    """Say that rows from evidence score about as well as rows without it; the arguments are as in `describe_gain`."""
    better = f"only {gain:.3f} bits per byte better than without evidence, too little to tell"
    if gain < 0.0005:  # 0.000 as it is shown
        better = "no better than without evidence"
    return (
        f"Before training, it predicts the text {better} ({own:.3f} bits per byte, against {_list_scores(baselines)}). "
        "Good evidence often starts like this and shows within the first steps: train two methods for a short time "
        "(relexify advise) before you train one for long."
    )


def describe_bitext(check: BitextCheck, *, little_overlap: float | None) -> str:
    """Say what parallel text contributes.

    Args:
        check: What was measured.
        little_overlap: The share of the words of the text that it has if they are few, else None.
    """
    pairs = "one pair" if check.pairs == 1 else f"{check.pairs:,} pairs"
    found = f"Parallel text ({pairs}) gives meanings to {check.tokens:,} tokens, {check.text_share:.0%} of the text"
    if check.shared is not None:
        found += f"; the dictionary has {check.shared:,} of these tokens too"
    if little_overlap is None:
        return f"{found}."
    return (
        f"{found}. But it has only {little_overlap:.0%} of the words of the text, so it is small, or not in the "
        "language of the text: give more, or leave it out (--bitext)."
    )


def describe_rare_tokens(tokens: int, size: int) -> str:
    """Say that a vocabulary is too large for a text, by the number of its tokens and the bytes of the text."""
    fitting = fitting_vocabulary(size)
    or_fewer = f", or at most {fitting:,} tokens (--vocab-size {fitting})" if fitting else ""
    return (
        f"The vocabulary is large for the text ({tokens:,} tokens for {format_size(size)}): many tokens occur fewer "
        f"than five times in it, too rarely to be learnt. Give more text, {format_size(BYTES_PER_TOKEN * tokens)} or "
        f"more{or_fewer}."
    )


def _best(baselines: Mapping[str, float]) -> str:
    return BASELINES[min(baselines, key=lambda name: baselines[name])]


def _list_scores(baselines: Mapping[str, float]) -> str:
    return " and ".join(f"{value:.3f} with {BASELINES[name]}" for name, value in baselines.items())
