"""Train a bilingual model (RAMEN, section 2.3): all parameters, and half of every batch in each language."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from relexify.errors import InputError
from relexify.pretrained.architecture import architecture_of, check_fit
from relexify.pretrained.languages import check_languages
from relexify.pretrained.runtime.runnable import check_finite
from relexify.storage.fingerprint import fingerprint
from relexify.systems.bilingual.folder import BilingualBundle, load_bilingual_model
from relexify.systems.bilingual.model import MEMBERS, BilingualModel
from relexify.systems.bilingual.options import RAMEN
from relexify.text import TextOption
from relexify.training.data.batches import TwoTexts
from relexify.training.data.texts import LanguageData, TrainingData, language_data, share_packing
from relexify.training.distributed import started_processes
from relexify.training.job import TrainingJob, source_notes
from relexify.training.options import Training
from relexify.training.results.result import TrainingResult
from relexify.training.run import run_training
from relexify.training.trainable import check_halves, check_language_model, check_stages

__all__ = ["train_bilingual"]


def train_bilingual(
    source: str | Path,
    target: str | Path,
    output: str | Path,
    corpus: TextOption,
    source_corpus: TextOption,
    training: Training = RAMEN,
    *,
    languages: tuple[str, str] = MEMBERS,
    held_out: TextOption | None = None,
    source_held_out: TextOption | None = None,
    overwrite: bool = False,
) -> TrainingResult:
    """Join two models that share an encoder, train both languages together, and write the bilingual model.

    Args:
        source: The model of the source language: a folder, a Hub name, or `smollm2-135m`.
        target: The same model with the vocabulary of the target language, as `relexify transfer` writes it.
        output: The folder to write; checkpoints are in `OUTPUT.training` until it is complete.
        corpus: Text in the target language.
        source_corpus: Text in the source language.
        training: Training options; half of every batch is in each language.
        languages: Names of the source and the target language.
        held_out: Text in the target language to score on; if None, one line in 100 is held out.
        source_held_out: Text in the source language to score on; if None, one line in 100 is held out.
        overwrite: Replace the output, and unfinished work of another training run.

    Raises:
        InputError: Models, texts or options do not match, or unfinished work belongs to another run or is damaged.
        GraftError: The two models do not share an encoder.
        VocabularyError: A tokenizer does not match its model.
        TrainingError: The loss is NaN, or there is not enough memory.
        OutputError: A checkpoint or the result cannot be written.
    """
    check_languages(languages)
    check_halves(training, started_processes().num_processes)
    texts = {languages[0]: (source_corpus, source_held_out), languages[1]: (corpus, held_out)}
    return run_training(
        lambda training: _bilingual_job(source, target, texts, training),
        output,
        training,
        inputs=(source, target),
        texts=(source_corpus, source_held_out, corpus, held_out),
        overwrite=overwrite,
    )


def _bilingual_job(
    source: str | Path,
    target: str | Path,
    texts: Mapping[str, tuple[TextOption, TextOption | None]],
    training: Training,
) -> TrainingJob:
    """Load both models as one, and both texts; the first process fills the caches that the others read.

    Args:
        source: The model of the source language.
        target: That of the target language.
        texts: Text to train on and text to score on, by language, the source language first.
        training: The options.
    """
    processes = started_processes()
    first, second = texts
    languages = (first, second)
    with processes.main_process_first():
        bundle = BilingualBundle.join(source, target, languages)
    dtype, model = bundle.model.dtype, bundle.model.float()
    for language in languages:
        check_language_model(model.for_language(language), training)
        check_fit(model.for_language(language), bundle.tokenizers[language])
    check_stages(model, training)
    if processes.is_main_process:  # with FSDP, only this one may have the weights
        check_finite(model)
    data: dict[str, LanguageData] = {}
    for language, (text, scored_on) in texts.items():
        member, tokenizer = model.for_language(language), bundle.tokenizers[language]
        option = "source_held_out" if language == first else "held_out"
        try:
            share_packing(tokenizer, text, scored_on)
            with processes.main_process_first():
                data[language] = language_data(
                    member, tokenizer, text, scored_on, training, language=language, held_out_option=option
                )
        except InputError as error:
            raise InputError(f"the text of the language {language!r} cannot be used: {error}") from error

    def load(folder: Path | None) -> BilingualModel:
        if folder is None:  # the model before training, which training has changed in place
            return BilingualBundle.join(source, target, languages).model
        return load_bilingual_model(folder)

    return TrainingJob(
        model=model,
        dtype=dtype,
        data=TrainingData(
            TwoTexts(*(part.blocks for part in data.values())),
            {language: part.held_out for language, part in data.items()},
            architecture_of(model.source),
            new_sequences=2 * min(part.blocks.count for part in data.values()),  # in turn from each text
        ),
        identity={
            "model": fingerprint([model, bundle.tokenizers]),
            "languages": list(languages),
            "texts": {language: part.identity for language, part in data.items()},
        },
        notes=source_notes(target) | {"bilingual": {"languages": list(languages), "source": str(source)}},
        load=load,
        save=lambda trained, folder: replace(bundle, model=trained).write_into(folder),
    )
