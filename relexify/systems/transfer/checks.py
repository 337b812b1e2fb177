"""Validate the options of a transfer, and open its evidence, before any work.

There are three levels, each of which includes the next one:

    prepare_transfer    the output can be written, and replaces no input (`check_replaced`)
    check_transfer      the files can be read; opens the evidence, and warns of what is unused or unlikely
    validate_transfer   the options alone, without opening a file: for the table of a recipe, and for each method that
                        an advice may try

`check_transfer` also calls `check_names`: whether there are models of the given names, and what can be known of their
tokenizers. `relexify run` calls it alone, before it imports torch.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path

from relexify.device import validate_device
from relexify.errors import LARGEST_SEED, InputError, check_choices, check_number
from relexify.evidence.alignment.unsupervised.options import validate_adversarial_training
from relexify.evidence.bitext import import_eflomal, validate_word_alignment
from relexify.evidence.bitext.aligned_tokens import is_aligned
from relexify.evidence.evidence import Evidence, open_evidence
from relexify.evidence.vectors.options import validate_vector_training
from relexify.methods.registry import METHODS, InputKind, Method
from relexify.pretrained.files.tokenizer import read_local_backend
from relexify.pretrained.names import check_name
from relexify.scoring import warn_about_short_sample
from relexify.storage.files import check_output, format_size
from relexify.storage.inputs import check_inputs
from relexify.storage.notes import output_notes, read_notes
from relexify.storage.revisions import TRANSFER_REVISIONS, check_revisions
from relexify.systems.transfer.options import (
    EVIDENCE_OPTIONS,
    USAGE_OPTIONS,
    Transfer,
    command_of,
    given_translations,
    method_options,
    transfer_inputs,
    unused_options,
)
from relexify.systems.transfer.tokenizer.choice import choose_tokenizer
from relexify.systems.transfer.tokenizer.vocabulary_size import BYTES_PER_TOKEN, fitting_vocabulary
from relexify.text import Corpus, sample_revisions
from relexify.tokens import LARGEST_VOCABULARY, check_vocabulary_size

__all__ = [
    "check_names",
    "check_replaced",
    "check_transfer",
    "is_repeated",
    "prepare_transfer",
    "transfer_revisions",
    "validate_transfer",
]

_RANGES = {
    "vocab_size": (1, LARGEST_VOCABULARY),
    "added_tokens": (1, LARGEST_VOCABULARY),
    "neighbours": (1, 2**31 - 1),
    "pad_to_multiple_of": (1, 2**16),
    "seed": (0, LARGEST_SEED),
    "held_out_bytes": (1, 2**40),
}

_MISSING: Mapping[InputKind, tuple[str, str]] = {
    "bitext": ("bitext", "parallel text: give `bitext`, or choose another"),
    "source text": ("source_corpus", "text of the model's language too: give `source_corpus`"),
    "dictionary": ("dictionary", "a dictionary: give `dictionary`, or choose another"),
    "donor": ("donor", "a model of the target language: give `donor`"),
    "token vectors": ("target_vectors", "vectors of the target tokens: give `target_vectors`"),
}
"""By input without a replacement: the option that gives it, and the end of the message that it is missing."""

_DECISIVE = {"extended": "keep_source", "given": "tokenizer", "donor": "donor"}
"""The option that determines the vocabulary, if none of `vocab_size` tokens is trained, by `TokenizerChoice.origin`."""

_SAMPLE, _MOST_ENTRIES = 50_000, 0.8
"""Bytes of text that are searched for pairs of words, and the share of its lines above which it is a dictionary."""
_ENTRY = re.compile(r"\s*\S+( \S+){0,3}\t\S+( \S+){0,3}\s*")
"""A line of a dictionary: up to four words on either side of a tab."""

logger = logging.getLogger(__name__)


def prepare_transfer(options: Transfer) -> Evidence:
    """Validate everything about a transfer that can be known without its model, and return its evidence.

    This imports neither torch nor transformers, so that invalid input is rejected at once.

    Raises:
        InputError: As `check_transfer`; or the output would replace an input.
        OutputError: The output cannot be written, or is the result of this transfer by other code.
        MissingExtra: As `check_transfer`.
    """
    check_replaced(options)
    if is_repeated(options):
        before = read_notes(options.output)["provenance"].get("revisions")
        check_revisions(Path(options.output), before, transfer_revisions(options))
    else:
        check_output(options.output, overwrite=options.overwrite)
    return check_transfer(options)


def check_replaced(options: Transfer) -> None:
    """Validate that the output of a transfer replaces none of its inputs.

    Raises:
        OutputError: As `check_inputs`.
    """
    texts = (options.corpus, options.held_out, options.source_corpus, options.source_held_out)
    check_inputs(options.output, *transfer_inputs(options), texts=texts)


def is_repeated(options: Transfer) -> bool:
    """Whether the output was written with the same options; `is_finished` also compares the inputs."""
    recorded = (output_notes(options.output).get("provenance") or {}).get("command") or {}
    here = {"device": options.device, "overwrite": False}  # neither affects the output
    return not options.overwrite and {**recorded, **here} == command_of(options)


def transfer_revisions(options: Transfer) -> dict[str, int]:
    """Return the revisions of the code that makes the result of a transfer."""
    samples = sample_revisions(options.corpus, options.held_out, options.source_corpus, options.source_held_out)
    return {**TRANSFER_REVISIONS, "method": METHODS.get_or_raise(options.method).revision, **samples}


def check_transfer(options: Transfer, *, report_unused: bool = True) -> Evidence:
    """Validate the options of a transfer, open its evidence, and return it.

    Args:
        options: What to do.
        report_unused: Whether to warn of options that the method does not use; off if other methods are tried with
            the same options.

    Raises:
        InputError: An option has an impossible value, or evidence is missing, unreadable or empty.
        MissingExtra: Parallel text has not been aligned yet, and eflomal is not installed.
    """
    validate_transfer(options)
    check_names(options)
    evidence = open_evidence(
        options.corpus,
        held_out=options.held_out,
        source_corpus=options.source_corpus,
        source_held_out=options.source_held_out,
        dictionary=options.dictionary,
        dictionary_swapped=options.dictionary_swapped,
        bitext=options.bitext,
        alignment=options.alignment,
        aligning=options.aligning,
        source_vectors=options.source_vectors,
        target_vectors=options.target_vectors,
        rotation=options.rotation,
        scored=options.score,
        source_scored=options.keep_source,
    )
    _report_word_list(evidence.corpus)
    _report_rare_tokens(options, evidence.corpus)
    if options.score:
        warn_about_short_sample(evidence.held_out, options.held_out_bytes)
    if report_unused:
        _report_unused(options)
    needs_links = METHODS[options.method].takes("bitext") and evidence.links is None
    if needs_links and evidence.bitext is not None and not is_aligned(evidence.bitext):
        import_eflomal()
    return evidence


def validate_transfer(options: Transfer) -> None:
    """Validate the options of a transfer without opening any file.

    Raises:
        InputError: An option has an impossible value, or evidence that the method needs is not given.
    """
    if options.vocab_size < 1:  # the smallest possible size is known only when the tokenizer is loaded
        raise InputError(f"`vocab_size={options.vocab_size}` is not possible: give some thousand tokens, such as 32000")
    for name, (least, most) in _RANGES.items():
        check_number(name, getattr(options, name), least, most)
    check_choices(options)
    if not 0 < options.temperature < float("inf"):
        raise InputError(f"`temperature={options.temperature}` is not possible: give a number above 0, such as 0.1")
    validate_device(options.device)
    validate_adversarial_training(options.adversarial)
    validate_vector_training(options.vectors)
    validate_word_alignment(options.aligning)
    method = METHODS.get_or_raise(options.method)
    method_options(options)
    if options.aligned_by in ("random", "nothing") and method.takes("token vectors"):
        raise InputError(
            f"the method {options.method} is not aligned by {options.aligned_by!r}: choose "
            "`initialisation=random` as a control"
        )
    if options.overrides and not method.takes("overrides"):
        raise InputError(f"the method {options.method} takes no overrides: leave them out, or choose another method")
    if options.keep_source:
        _check_extension(options, method)
    for kind in method.needs:
        name, missing = _MISSING.get(kind, ("", ""))
        if name and getattr(options, name) is None:
            raise InputError(f"the method {options.method} needs {missing}")


def check_names(options: Transfer) -> None:
    """Validate that there are models of the names that the options give, and that their tokenizers can be used.

    Raises:
        InputError: There is no such tokenizer or donor, or a tokenizer is damaged, or the vocabulary would be too small
            for one like that of the model.
    """
    if options.tokenizer is not None:
        read_local_backend(check_name(options.tokenizer, "tokenizer"))
    if options.donor is not None:
        check_name(options.donor)
    is_like_source = choose_tokenizer(options).origin == "like source"
    if is_like_source and (like := read_local_backend(str(options.model))) is not None:
        check_vocabulary_size(like, options.vocab_size)


def _report_unused(options: Transfer) -> None:
    """Warn of options that the method does not use, or does not need because it has translations."""
    method = METHODS[options.method]
    unneeded = unused_options(method, keep_source=options.keep_source)
    beside, defaults = given_translations(options), {field.name: field.default for field in fields(options)}
    unused = [name for name in unneeded if getattr(options, name) is not None]
    for name, kinds in USAGE_OPTIONS.items():
        if getattr(options, name) != defaults[name] and not any(method.takes(kind) for kind in kinds):
            unused.append(name)
    if unused:
        logger.warning("the method %s makes no use of %s", options.method, _quote_names(unused))
    decisive = _DECISIVE.get(choose_tokenizer(options).origin)
    if options.vocab_size != defaults["vocab_size"] and decisive is not None:
        logger.warning("`vocab_size` has no effect, because %s determines the vocabulary", _quote_names([decisive]))
    if options.dictionary_swapped and options.dictionary is None:
        logger.warning("`dictionary_swapped` has no effect without `dictionary`")
    # Options that were set, and that the method would use if it had no translations.
    replaced = [
        name
        for name, kinds in {**EVIDENCE_OPTIONS, **USAGE_OPTIONS}.items()
        if getattr(options, name) != defaults[name]
        and not (options.keep_source and name == "source_corpus")
        and any(method.takes(kind) for kind in kinds)
        and not any(method.takes(kind, beside=beside) for kind in kinds)
    ]
    if replaced:
        logger.warning(
            "the method %s makes no use of %s beside %s", options.method, _quote_names(replaced), _quote_names(beside)
        )


def _report_word_list(corpus: Corpus) -> None:
    """Warn if a text consists of pairs of words, as a dictionary does."""
    lines = [line for line in corpus.sample_bytes(_SAMPLE).split("\n") if line.strip()]
    entries = sum(len(line.split()) == 2 or _ENTRY.fullmatch(line) is not None for line in lines)
    if entries > _MOST_ENTRIES * len(lines):
        logger.warning(
            "the text looks like a dictionary, because %d of %d sampled lines are pairs of words: give ordinary "
            "sentences as `corpus`",
            entries,
            len(lines),
        )


def _report_rare_tokens(options: Transfer, corpus: Corpus) -> None:
    """Warn if the vocabulary to train is too large for its text, which training alone would not show."""
    size, least = corpus.size(), BYTES_PER_TOKEN * options.vocab_size
    if not choose_tokenizer(options).is_trained or size is None or size >= least:
        return
    fitting = fitting_vocabulary(size)
    or_fewer = f", or at most {fitting:,} tokens (`vocab_size={fitting}`)" if fitting else ""
    logger.warning(
        "%s of text is little for %s tokens: many of them will occur fewer than five times in it; "
        "give more text, %s or more%s",
        format_size(size),
        f"{options.vocab_size:,}",
        format_size(least),
        or_fewer,
    )


def _check_extension(options: Transfer, method: Method) -> None:
    """Validate the options of an extended vocabulary.

    Raises:
        InputError: They contradict one another, or there is no text to keep the encoding of.
    """
    if options.source_corpus is None:
        raise InputError(
            "`keep_source` needs text in the model's language (`source_corpus`), so that its encoding stays unchanged: "
            "give such text, or leave out `keep_source`"
        )
    if options.tokenizer is not None:
        raise InputError("`keep_source` extends the model's own tokenizer: leave out `tokenizer`, or `keep_source`")
    if method.train_tokenizer is not None or method.fresh_inner or method.takes("donor"):
        raise InputError(
            f"the method {options.method} does not build on the model's own vocabulary: leave out `keep_source`, or "
            "choose another method"
        )


def _quote_names(names: Sequence[str]) -> str:
    """Return names of options for a message."""
    return ", ".join(f"`{name}`" for name in names)
