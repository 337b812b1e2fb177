"""`relexify transfer`: give a model a new language."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from relexify.cli import options as shared
from relexify.cli.console import emit
from relexify.cli.options import METHOD, chosen_device, option
from relexify.cli.progress import bars
from relexify.cli.summary import print_model_folder, print_next_steps, print_plan, print_summary
from relexify.errors import InputError
from relexify.systems.transfer.defaults import DEFAULT_ADDED, DEFAULT_VOCABULARY

if TYPE_CHECKING:
    from relexify.evidence.evidence import Evidence
    from relexify.systems.transfer.options import Transfer

__all__ = ["transfer"]

_SAMPLE = 1_000_000
"""Bytes of text that a dry run looks for words of the dictionary in."""


def transfer(
    model: shared.Model,
    output: shared.OutputFolder,
    corpus: shared.Corpus,
    dictionary: shared.Dictionary = None,
    bitext: shared.Bitext = None,
    source_corpus: shared.SourceCorpus = None,
    source_vectors: shared.SourceVectors = None,
    target_vectors: shared.TargetVectors = None,
    tokenizer: shared.TargetTokenizer = None,
    donor: shared.Donor = None,
    held_out: shared.HeldOut = None,
    method: Annotated[
        str, typer.Option(help="Initialisation; see relexify methods.", rich_help_panel=METHOD)
    ] = "blend",
    vocab_size: shared.VocabularySize = DEFAULT_VOCABULARY,
    keep_source: Annotated[
        bool,
        option(
            "Add tokens to the model's vocabulary instead of replacing it; needs --source-corpus, which is "
            "encoded as before.",
            METHOD,
            "--keep-source",
        ),
    ] = False,
    added_tokens: Annotated[
        int, typer.Option(help="Number of tokens that --keep-source adds.", rich_help_panel=METHOD)
    ] = DEFAULT_ADDED,
    device: shared.Device = "auto",
    seed: shared.Seed = 0,
    overwrite: shared.Overwrite = False,
    dry_run: shared.DryRun = False,
    settings: shared.Settings = None,
) -> None:
    """Give MODEL a new language and write it to OUTPUT, ready to load and to train.

    Trains a tokenizer on the text, finds the source tokens that each target token is to be mixed from with the evidence
    that is given, and grafts the mixed embeddings onto the unchanged inner parameters. If interrupted, run the same
    command again to resume.

    Example: relexify transfer smollm2-135m smollm2-swahili --corpus swahili.txt --dictionary en-sw.tsv

    Example: relexify transfer gpt2 gpt2-swahili --corpus swahili.txt --method wechsel --set neighbours=20

    Example: relexify transfer gpt2 gpt2-both --corpus swahili.txt --source-corpus english.txt --keep-source
    """
    from relexify.recipes.file.settings import apply_settings
    from relexify.systems.transfer.checks import prepare_transfer
    from relexify.systems.transfer.options import Transfer

    options = Transfer(
        model=model,
        output=output,
        corpus=corpus,
        dictionary=dictionary,
        bitext=bitext or None,
        source_corpus=source_corpus or None,
        source_vectors=source_vectors,
        target_vectors=target_vectors,
        tokenizer=tokenizer,
        donor=donor,
        held_out=held_out or None,
        method=method,
        vocab_size=vocab_size,
        keep_source=keep_source,
        added_tokens=added_tokens,
        device=device,
        seed=seed,
        overwrite=overwrite,
    )
    options = apply_settings("transfer", options, settings)
    # Here alone: an advice compares a replaced vocabulary with one that is extended by that number of tokens.
    if options.added_tokens != DEFAULT_ADDED and not options.keep_source:
        raise InputError("--added-tokens is the number of tokens that --keep-source adds: give both, or leave it out")
    evidence = prepare_transfer(options)
    # Only now, because importing torch takes seconds, and invalid input is rejected before.
    options = replace(options, device=chosen_device(options.device))
    if dry_run:
        _print_plan(options, evidence)
        return
    from relexify.reports.next_steps import after_transfer
    from relexify.storage.work import read_notes
    from relexify.systems.transfer.assessment.summary import summarise_transfer
    from relexify.systems.transfer.run import run_transfer

    with bars():
        result = run_transfer(options, evidence=evidence)
    print_summary(summarise_transfer(result))
    print_model_folder(result.output)
    print_next_steps(*after_transfer(result.output, read_notes(result.output)))
    emit(output=result.output, verdict=result.verdict, start=result.start)


def _print_plan(options: Transfer, evidence: Evidence) -> None:
    """Validate what needs the model's config and tokenizer, and print what the transfer would do."""
    from relexify.methods.parts.translations import check_columns, whole_words
    from relexify.methods.registry import METHODS
    from relexify.pretrained.loading import load_config, load_tokenizer
    from relexify.systems.transfer.assessment.dictionary import example_entries
    from relexify.systems.transfer.options import given_translations
    from relexify.text.words import split_words, unspaced_runs
    from relexify.tokens import check_vocabulary_size

    size = evidence.corpus.size()  # not known of compressed text
    config, source, method = load_config(options.model), load_tokenizer(options.model), METHODS[options.method]
    becomes = method.becomes if given_translations(options) else method.without_translations or method.becomes
    names = ("dictionary", "bitext", "source_corpus", "source_vectors", "target_vectors", "rotation", "donor")
    given = [name.replace("_", " ") for name in names if getattr(options, name) is not None]
    if (lexicon := evidence.lexicon) is not None:
        found = ""
        if method.takes("dictionary"):
            # There is no target tokenizer yet, whose words the transfer itself looks up.
            sample = evidence.corpus.sample_bytes(_SAMPLE)
            words = dict.fromkeys(split_words(sample), 0)
            check_columns(whole_words(source), words, lexicon)
            if len(unspaced_runs(sample)) < len(words) / 2:  # otherwise, the words are known only after a segmentation
                lowered = {word.lower() for word in words}
                count = sum(target.lower() in lowered for _, target in lexicon.pairs)
                found = f"; {count:,} of their words are in the first {len(sample.encode()) / 1e6:.1f} MB of text"
        examples = ", ".join(example_entries(lexicon))
        given[0] = f"dictionary {lexicon.name} ({len(lexicon):,} entries{found}; {examples})"
    if options.keep_source:
        tokenizer = f"the model's own, with {options.added_tokens:,} tokens added"
    elif named := options.tokenizer or options.donor:
        tokenizer = f"that of {named}, {len(load_tokenizer(named)):,} tokens"
    else:
        tokenizer = f"trained, {options.vocab_size:,} tokens"
        if method.train_tokenizer is None:
            check_vocabulary_size(source, options.vocab_size)
    print_plan(
        [
            ("model", f"{options.model} ({config.model_type})"),
            ("text", evidence.corpus.name if size is None else f"{size:,} bytes"),
            ("tokenizer", tokenizer),
            ("method", f"{options.method}: a token becomes {becomes}"),
            ("evidence", ", ".join(given) or "the text alone"),
            ("scored", "yes" if options.score else "no"),
            ("output", options.output),
        ]
    )
