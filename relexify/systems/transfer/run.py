"""The main job: from a model and a text in another language to a model of that language."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from relexify.evidence.alignment import Rotation
from relexify.evidence.bitext import Bitext, WordAlignmentOptions
from relexify.evidence.lexicon import BilingualLexicon
from relexify.evidence.vectors import VectorTraining
from relexify.grafting import Graft, check_roles, graft
from relexify.methods import random, shuffle
from relexify.mixture import Mixture
from relexify.pretrained.architecture import architecture_of
from relexify.pretrained.fresh import fresh_twin
from relexify.pretrained.lexical import lexical_axes
from relexify.pretrained.loading import load_model, load_tokenizer
from relexify.scoring import bits_per_byte
from relexify.storage.files import Provenance, sha256_of
from relexify.systems.transfer.aligned_text import bitext_of
from relexify.systems.transfer.checks import check_recipe, open_texts, with_dictionary
from relexify.systems.transfer.mixing import mix
from relexify.systems.transfer.options import METHODS, Transfer
from relexify.systems.transfer.steps import kept_mixture, kept_tokenizer, step_name
from relexify.systems.trelm.method import joint_tokenizer, trelm_rows
from relexify.text import Corpus
from relexify.tokens import encoder_of, train_tokenizer_like, vocabulary_of
from relexify.version import __version__

__all__ = ["TransferResult", "needed_roles", "new_tokenizer", "run_transfer"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TransferResult:
    """What a transfer made.

    Attributes:
        graft: The model, its tokenizer and its mixture.
        rotation: How the languages' vectors were aligned, where they were.
        scores: Bits per byte before training, by initialisation.
        output: The folder.
    """

    graft: Graft
    rotation: Rotation | None
    scores: dict[str, float]
    output: Path


def run_transfer(recipe: Transfer) -> TransferResult:
    """Carry a transfer out: tokenizer, vectors, alignment, mixture, graft, score, save.

    Finished steps are kept in the cache, so that a killed run goes on where it was.
    """
    check_recipe(recipe)
    training, held_out = open_texts(recipe)
    evidence = with_dictionary(recipe)
    model, old = load_model(recipe.model), load_tokenizer(recipe.model)
    lexical_axes(model)  # one that can be given no new vocabulary should not cost the work before
    new = new_tokenizer(recipe, old, training)
    check_roles(old, new, needed_roles(model))
    mixture, rotation = _mixture(evidence, model, old, new, training)
    ready = trelm_rows(recipe, model, old, new, training) if recipe.method == "trelm" else None
    body = fresh_twin(model, seed=recipe.seed) if recipe.method == "fullrand" else model
    result = graft(
        body, new, mixture, precomputed=ready, seed=recipe.seed, pad_to_multiple_of=recipe.pad_to_multiple_of
    )
    scores = _scores(recipe, model, old, result, held_out) if recipe.score else {}
    summary = {"alignment": rotation.summary() if rotation else None, "bits_per_byte_before_training": scores}
    result.save(
        recipe.output, overwrite=recipe.overwrite, provenance=_provenance(recipe, training, new), summary=summary
    )
    return TransferResult(result, rotation, scores, Path(recipe.output))


def new_tokenizer(recipe: Transfer, old: Any, corpus: Corpus) -> Any:
    """The tokenizer that a recipe names, or one trained on the text, which is kept."""
    if recipe.tokenizer is not None:
        return load_tokenizer(recipe.tokenizer)
    if recipe.method == "trelm":
        return joint_tokenizer(recipe, old, corpus)
    name = step_name(
        "tokenizer",
        corpus=corpus.fingerprint(),
        like=old.backend_tokenizer.to_str(),
        special=old.special_tokens_map,
        chat_template=old.chat_template,
        padding_side=old.padding_side,
        size=recipe.vocab_size,
    )
    return kept_tokenizer(
        name, lambda: train_tokenizer_like(old, lambda: iter(corpus), recipe.vocab_size, size=corpus.size())
    )


def _mixture(recipe: Transfer, model: Any, old: Any, new: Any, corpus: Corpus) -> tuple[Mixture, Rotation | None]:
    """The mixture, or that of an earlier run with the same evidence."""
    if not METHODS[recipe.method].uses_vectors:
        return mix(recipe, model, old, new, corpus)
    text, lexicon = recipe.source_corpus, recipe.dictionary
    bitext = bitext_of(recipe)
    files = {name: getattr(recipe, name) for name in ("alignment", "rotation", "source_vectors", "target_vectors")}
    own = None if text is not None or recipe.source_vectors is not None else model.get_input_embeddings().weight
    name = step_name(
        "mixture",
        method=recipe.method,
        tokenizers=[encoder_of(old).identity, encoder_of(new).identity],
        roles=[vocabulary_of(old).special, vocabulary_of(new).special],  # which tokenizer.json does not tell
        corpus=corpus.fingerprint(),
        source_corpus=None if text is None else Corpus.open(text).fingerprint(),
        dictionary=lexicon.pairs if isinstance(lexicon, BilingualLexicon) else None,
        bitext=None if bitext is None else [bitext.fingerprint(), asdict(recipe.aligning)],
        files={name: None if path is None else sha256_of(path) for name, path in files.items()},
        embedding=None if own is None else hashlib.sha256(own.detach().float().cpu().numpy().tobytes()).hexdigest(),
        aligned_by=recipe.aligned_by,
        options=[recipe.neighbours, recipe.temperature, asdict(recipe.vectors), recipe.seed, dict(recipe.overrides)],
    )
    return kept_mixture(name, lambda: mix(recipe, model, old, new, corpus))


def needed_roles(model: Any) -> tuple[str, ...]:
    """The steering tokens that a tokenizer must have for a model."""
    kind = architecture_of(model)
    return {"encoder": ("mask", "pad"), "encoder-decoder": ("pad", "eos")}.get(kind, ())


def _scores(recipe: Transfer, model: Any, old: Any, result: Graft, held_out: Corpus) -> dict[str, float]:
    """Bits per byte before training, of this initialisation and of two that know nothing."""
    if architecture_of(model) == "headless":
        logger.warning("%s has no language-modelling head, so bits per byte cannot be measured", type(model).__name__)
        return {}
    text = held_out.sample_bytes(recipe.score_bytes)
    new, scores = result.tokenizer, {}
    for name, mixture in (("random", random(old, new)), ("shuffle", shuffle(old, new, seed=recipe.seed))):
        baseline = graft(model, new, mixture, seed=recipe.seed).model.to(recipe.device)
        scores[name] = bits_per_byte(baseline, new, text).value
    scores[recipe.method] = bits_per_byte(result.model.to(recipe.device), new, text).value
    return scores


def _provenance(recipe: Transfer, corpus: Corpus, tokenizer: Any) -> Provenance:
    """Hashes of all that went in, and what was asked."""
    named = ("dictionary", "alignment", "rotation", "source_vectors", "target_vectors")
    files = {name: getattr(recipe, name) for name in named}
    inputs = {name: sha256_of(path) for name, path in files.items() if isinstance(path, str | Path)}
    texts = {"corpus": corpus, "source_corpus": recipe.source_corpus, "held_out": recipe.held_out}
    inputs |= {name: Corpus.open(text).fingerprint() for name, text in texts.items() if text is not None}
    if (bitext := bitext_of(recipe)) is not None:
        inputs["bitext"] = bitext.fingerprint()
    inputs["tokenizer"] = hashlib.sha256(tokenizer.backend_tokenizer.to_str().encode()).hexdigest()
    command = {entry.name: _plain(getattr(recipe, entry.name)) for entry in fields(recipe)}
    return Provenance(version=__version__, command=command, inputs=inputs, seed=recipe.seed)


def _plain(value: Any) -> Any:
    """What json can hold; of texts and dictionaries in memory, their name."""
    if isinstance(value, VectorTraining | WordAlignmentOptions):
        return asdict(value)
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, str | int | float | bool | dict | None):
        return value
    return getattr(value, "name", "") if isinstance(value, Corpus | BilingualLexicon | Bitext) else str(value)
