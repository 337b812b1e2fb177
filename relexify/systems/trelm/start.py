"""The model that TreLM begins with: one with a joint vocabulary, or two that differ in their vocabularies alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from relexify.errors import GraftError, InputError
from relexify.pretrained.hub import must_be_local
from relexify.pretrained.loading import load_config, load_model, load_tokenizer, resolve
from relexify.storage.files import MARKER, write_file, write_folder
from relexify.systems.bilingual.training import check_halves
from relexify.systems.trelm.model.backbone import family_of
from relexify.systems.trelm.model.building import with_trilayer
from relexify.systems.trelm.model.config import TriLayerConfig
from relexify.systems.trelm.model.folder import check_fits, save_tokenizers
from relexify.systems.trelm.model.trilayer import TriLayerForMaskedLM
from relexify.systems.trelm.options import Trelm
from relexify.training.trainable import check_learner

__all__ = ["check_start", "write_start"]


def check_start(model: str | Path, options: Trelm) -> None:
    """Refuse a model that some phase could not train, by its config alone.

    Args:
        model: With the vocabulary of both languages, or of the new one.
        options: What is asked for.

    Raises:
        InputError: It cannot be trained as asked, or the model that it came from is missing.
        GraftError: A TRILayer cannot be put into it.
    """
    config = load_config(model)
    family_of(config)
    if options.vocabularies == "separate":
        _check_source(model, config, options)
    with torch.device("meta"):
        hollow = TriLayerForMaskedLM(
            TriLayerConfig(backbone=config, languages=options.languages, trilayer=options.trilayer)
        )
    for training in (options.commonality, options.transfer, options.specific):
        check_learner(hollow, training)
    for training in (options.commonality, options.transfer):
        check_halves(training, 1)


def write_start(model: str | Path, start: Path, options: Trelm) -> None:
    """Write the model that the first phase begins with, unless it is there.

    Raises:
        GraftError: A TRILayer cannot be put into it, or the two models do not share an encoder.
        VocabularyError: A tokenizer is not its model's.
    """
    if (start / MARKER).exists():
        return
    source = options.source_model if options.vocabularies == "separate" and options.source_model else None
    first, second = options.languages
    built = with_trilayer(
        _backbone(source or model),
        (first, second),
        target=None if source is None else _plain(model),
        trilayer=options.trilayer,
        embedding_size=options.embedding_size,
        seed=options.seed,
    )
    tokenizers = load_tokenizer(source or model), load_tokenizer(model)
    check_fits(built, tokenizers)
    with write_folder(start, internal=True) as folder:
        built.save_pretrained(folder)
        save_tokenizers(tokenizers, folder, built.config)
        write_file(folder / MARKER, "{}\n")


def _check_source(model: str | Path, config: Any, options: Trelm) -> None:
    if options.source_model is None:
        raise InputError(
            f"separate vocabularies ask for the model that {model} was transferred from: give it with --source-model, "
            "or in [trelm] of a recipe"
        )
    source = load_config(options.source_model)
    family_of(source)
    if source.model_type != config.model_type or source.hidden_size != config.hidden_size:
        raise GraftError(
            f"{options.source_model} and {model} do not share an encoder ({source.model_type}, {source.hidden_size} "
            f"wide, and {config.model_type}, {config.hidden_size} wide): give the model that the other was transferred "
            "from"
        )


def _backbone(model: str | Path) -> Any:
    """The model, with a head for next sentences where its weights have one, whatever its config calls it."""
    from transformers import BertForPreTraining

    if getattr(load_config(model), "model_type", None) == "bert":
        place = resolve(model)
        with torch.random.fork_rng(devices=[]):
            found, loaded = BertForPreTraining.from_pretrained(
                place, dtype="auto", output_loading_info=True, local_files_only=must_be_local(place)
            )
        if not loaded["missing_keys"]:
            return found.eval()
    return _plain(model)


def _plain(model: str | Path) -> Any:
    found = load_model(model)
    if isinstance(found, TriLayerForMaskedLM):
        raise InputError(f"{model} has a TRILayer already: give the model that it came from")
    return found
