"""Training a bilingual model (RAMEN, section 2.3): all parameters, every batch half of each language."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState

from relexify.errors import InputError
from relexify.pretrained.architecture import architecture_of, check_fit
from relexify.pretrained.languages import check_languages
from relexify.scoring import HeldOut
from relexify.storage.fingerprint import fingerprint
from relexify.systems.bilingual.folder import BilingualBundle, load_bilingual_model
from relexify.systems.bilingual.model import MEMBERS
from relexify.systems.bilingual.options import RAMEN
from relexify.training.data.batches import TwoTexts
from relexify.training.job import TrainingData, TrainingJob, language_data, source_notes
from relexify.training.plan import Training
from relexify.training.result import TrainingResult
from relexify.training.run import run_training
from relexify.training.trainable import check_halves, check_language_model, check_stages

__all__ = ["train_bilingual"]

logger = logging.getLogger(__name__)


def train_bilingual(
    source: str | Path,
    target: str | Path,
    output: str | Path,
    corpus: Any,
    source_corpus: Any,
    training: Training = RAMEN,
    *,
    languages: tuple[str, str] = MEMBERS,
    held_out: Any = None,
    source_held_out: Any = None,
    overwrite: bool = False,
) -> TrainingResult:
    """Join two models that share an encoder, train both languages together, and write the bilingual model.

    Args:
        source: The model of the first language: a folder, a Hub name, or `smollm2-135m`.
        target: The same model with the vocabulary of the second language, as `relexify transfer` makes it.
        output: The folder to write; checkpoints lie in `OUTPUT.training` until it is written.
        corpus: Text in the second language, whatever `Corpus.open` takes.
        source_corpus: Text in the first language.
        training: How; half of every batch is of each language.
        languages: What the two languages are called.
        held_out: Text of the second language to measure on; where none is given, one line in 100 is kept aside.
        source_held_out: The same of the first language.
        overwrite: Replace the output, and checkpoints of another training that lie in its way.

    Raises:
        InputError: Something about models, texts or options does not fit, or checkpoints are another run's or damaged.
        GraftError: The two models do not share an encoder.
        VocabularyError: A tokenizer is not its model's.
        TrainingError: The loss is no longer a number, or the memory does not suffice.
        OutputError: A checkpoint or the result cannot be written.
    """
    check_languages(languages)
    processes = PartialState(cpu=not torch.cuda.is_available())
    check_halves(training, processes.num_processes)
    corpora = ((source_corpus, source_held_out), (corpus, held_out))
    return run_training(
        lambda plan: _two_languages((source, target), languages, corpora, plan, processes),
        output,
        training,
        processes,
        inputs=(source, target, corpora),
        overwrite=overwrite,
    )


def _two_languages(
    sources: tuple[str | Path, str | Path],
    languages: tuple[str, str],
    corpora: tuple[tuple[Any, Any], tuple[Any, Any]],
    training: Training,
    processes: PartialState,
) -> TrainingJob:
    """Both models as one, and both texts."""
    with processes.main_process_first():
        both = BilingualBundle.join(*sources, languages)
    dtype, model = both.model.dtype, both.model.float()
    for language in languages:
        check_language_model(model.for_language(language), training)
        check_fit(model.for_language(language), both.tokenizers[language])
    check_stages(model, training)
    texts = []
    for language, (corpus, held_out) in zip(languages, corpora, strict=True):
        logger.info("text of %s:", language)
        with processes.main_process_first():
            try:
                speaker, tokenizer = model.for_language(language), both.tokenizers[language]
                half = training.batch // 2
                texts.append(language_data(speaker, tokenizer, corpus, held_out, training, half))
            except InputError as error:
                raise InputError(f"the text of the language {language!r} does not do: {error}") from error
    measured: dict[str | None, HeldOut] = {
        language: text.held_out for language, text in zip(languages, texts, strict=True)
    }
    identities = {language: text.identity for language, text in zip(languages, texts, strict=True)}

    def reload(folder: Path | None) -> Any:
        return BilingualBundle.join(*sources, languages).model if folder is None else load_bilingual_model(folder)

    return TrainingJob(
        model,
        dtype,
        TrainingData(TwoTexts(*(text.blocks for text in texts)), measured, architecture_of(model.source)),
        {"model": fingerprint(model), "languages": list(languages), "texts": identities},
        source_notes(sources[1]) | {"bilingual": {"languages": list(languages), "source": str(sources[0])}},
        reload,
        lambda trained, folder: replace(both, model=trained).write_into(folder),
    )
