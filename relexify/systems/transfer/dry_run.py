"""What a transfer would do, without doing it."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from relexify.device import resolve_device
from relexify.evidence.evidence import Evidence
from relexify.evidence.lexicon import BilingualLexicon
from relexify.grafting import load_own_tokenizer
from relexify.methods.parts.translations import check_columns, whole_words
from relexify.methods.registry import METHODS, TRANSLATIONS
from relexify.pretrained.loading import load_config
from relexify.progress import count_of
from relexify.storage.files import format_size
from relexify.systems.transfer.assessment.dictionary import example_entries
from relexify.systems.transfer.assessment.dictionary_verdict import LEAST_TRANSLATED_TEXT
from relexify.systems.transfer.assessment.verdict import KNOWN_LANGUAGE_LENGTH, recognise_language
from relexify.systems.transfer.cost import estimate_before_loading
from relexify.systems.transfer.options import EVIDENCE_OPTIONS, Transfer, given_translations
from relexify.systems.transfer.tokenizer.choice import choose_tokenizer
from relexify.systems.transfer.tokenizer.target import load_chosen_tokenizer
from relexify.text import Corpus
from relexify.text.words import split_words, unspaced_runs
from relexify.tokens import AnyTokenizer, check_vocabulary_size, encoder_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

__all__ = ["planned_transfer"]

_SAMPLE_BYTES = 1_000_000
"""Bytes of text that words of the dictionary are looked for in."""

logger = logging.getLogger(__name__)


def planned_transfer(options: Transfer, evidence: Evidence) -> list[tuple[str, object]]:
    """Validate what needs the model's config and tokenizer, and return what the transfer would do, by subject.

    Args:
        options: The transfer.
        evidence: The result of `prepare_transfer`.

    Raises:
        InputError: The model cannot be loaded, the columns of the dictionary are swapped, or the vocabulary is too
            small or too large.
        VocabularyError: A tokenizer does not belong to its model.
    """
    options = replace(options, device=resolve_device(options.device))
    config, source, method = load_config(options.model), load_own_tokenizer(options.model), METHODS[options.method]
    becomes = method.becomes if given_translations(options) else method.without_translations or method.becomes
    text = Corpus.open(options.corpus).describe()
    text += ", one line in 100 is held out" if options.held_out is None else f"; {evidence.held_out.name} is held out"
    if left_out := evidence.corpus.describe_left_out():
        text += f"; {left_out}"
    kept: list[tuple[str, object]] = []
    if options.keep_source and options.source_corpus is not None:
        kept = [("kept", f"the encoding of {Corpus.open(options.source_corpus).describe()}")]
    if not options.keep_source:
        _warn_of_known_language(evidence.corpus, source)
    given = _describe_evidence(options, evidence, source)
    untested: list[tuple[str, object]] = []
    if evidence.lexicon is not None:
        untested = [("not tested", "whether these translations are right, or shuffled: only the transfer finds out")]
    return [
        ("model", f"{options.model} ({config.model_type})"),
        ("text", text),
        ("tokenizer", _describe_tokenizer(options, source)),
        *kept,
        ("method", f"{options.method}: a token becomes {becomes}"),
        ("evidence", given or "the text alone"),
        *untested,
        ("scored", "yes" if options.score else "no"),
        ("time", estimate_before_loading(options, evidence, source).describe()),
        ("output", options.output),
    ]


def _describe_evidence(options: Transfer, evidence: Evidence, source: PreTrainedTokenizerFast) -> str:
    """Say which evidence is given besides the text, and what a dictionary and parallel text have; empty without any.

    Raises:
        InputError: The columns of the dictionary are swapped.
    """
    method, lexicon = METHODS[options.method], evidence.lexicon
    names = [*TRANSLATIONS, "source_corpus", "source_vectors", "target_vectors", "rotation", "donor"]
    beside = given_translations(options)
    uses_source_text = any(method.takes(kind, beside=beside) for kind in EVIDENCE_OPTIONS["source_corpus"])
    if options.keep_source and not uses_source_text:
        names.remove("source_corpus")  # it only shows which encoding is kept
    given = {name: name.replace("_", " ") for name in names if getattr(options, name) is not None}
    if lexicon is not None:
        found = _words_in_text(lexicon, evidence.corpus, source) if method.takes("dictionary") else ""
        examples = ", ".join(example_entries(lexicon))
        given["dictionary"] = (
            f"dictionary {lexicon.name} ({count_of(len(lexicon), 'entry', 'entries')}{found}; {examples})"
        )
    if evidence.bitext is not None:
        given["bitext"] = f"bitext {evidence.bitext.name} ({count_of(evidence.bitext.pairs, 'pair')})"
    return ", ".join(given.values())


def _describe_tokenizer(options: Transfer, source: PreTrainedTokenizerFast) -> str:
    """Say which tokenizer the result has.

    Raises:
        InputError: There is no such tokenizer, or a vocabulary like the model's cannot have the requested size.
    """
    choice = choose_tokenizer(options)
    if choice.origin == "extended":
        return f"the model's own, with {count_of(options.added_tokens, 'token')} added"
    if (chosen := load_chosen_tokenizer(choice)) is not None:
        return f"the tokenizer of {choice.name}, {len(chosen):,} tokens"
    if choice.origin == "like source":
        check_vocabulary_size(source, options.vocab_size)
    return f"trained, {options.vocab_size:,} tokens, or fewer if there is little text"


def _warn_of_known_language(corpus: Corpus, source: AnyTokenizer) -> None:
    """Warn if the model's own tokenizer needs as few tokens per word as for a language that it was trained on."""
    lines = [line for line in corpus.sample_bytes(_SAMPLE_BYTES // 10).split("\n") if line.strip()]
    words = [word for line in lines for word in split_words(line) if any(map(str.isalnum, word))]
    if not words or len(unspaced_runs("\n".join(lines))) >= len(words) / 2:
        return
    length = sum(map(len, encoder_of(source).encode(lines))) / len(words)
    if length < KNOWN_LANGUAGE_LENGTH["word"]:
        logger.warning(
            "a transfer is probably not needed. %s; check that the text is in the new language",
            recognise_language(length),
        )


def _words_in_text(lexicon: BilingualLexicon, corpus: Corpus, source: AnyTokenizer) -> str:
    """Say how many words of a dictionary a sample of the text has; empty if that is not known yet.

    Raises:
        InputError: The columns of the dictionary are swapped.
    """
    # There is no target tokenizer yet, whose words the transfer itself looks up.
    sample = corpus.sample_bytes(_SAMPLE_BYTES)
    words = Counter(split_words(sample))
    check_columns(whole_words(source), words, lexicon)
    if len(unspaced_runs(sample)) >= len(words) / 2:  # the words are known only after a segmentation
        return ""
    lowered = Counter(word.lower() for word in words.elements())
    found = sum(target.lower() in lowered for _, target in lexicon.pairs)
    share = sum(lowered[word] for word in {target.lower() for _, target in lexicon.pairs}) / max(1, lowered.total())
    drawn = "the first" if len(corpus.sources) == 1 else "a sample of"
    size = f"{drawn} {format_size(len(sample.encode()))} of text"
    if share < LEAST_TRANSLATED_TEXT:
        logger.warning(
            "the words of the dictionary make up only %.1f %% of %s: it is small, or for another language, or spells "
            "words differently; check that it has the model's language first, and read the entries below",
            100 * share,
            size,
        )
    return f"; {found:,} of their words are in {size}, and make up {share:.1%} of it"
