"""From options and evidence to a grafted model: tokenizer, inputs of the method, initialisation, graft, prior."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from relexify.evidence.alignment import Rotation
from relexify.evidence.evidence import Evidence
from relexify.grafting import Graft, UnigramPrior, UnigramReport, find_unigram_prior, graft, is_tied, sample_paragraphs
from relexify.methods.inputs import Inputs
from relexify.methods.registry import METHODS, Initialisation, InputKind
from relexify.mixture import MIXTURE_FILE, Mixture, PrecomputedRows
from relexify.pretrained.architecture import architecture_of
from relexify.pretrained.fresh import fresh_twin
from relexify.pretrained.lexical import weight_rows
from relexify.pretrained.loading import load_config, load_model, load_tokenizer
from relexify.pretrained.tokenizers import save_tokenizer, train_tokenizer
from relexify.storage.arrays import load_arrays, save_arrays
from relexify.storage.cache import cached, is_cached
from relexify.storage.fingerprint import fingerprint
from relexify.storage.revisions import EVIDENCE, PRIORS, TOKENIZERS
from relexify.systems.transfer.extension import extend_vocabulary, is_extended
from relexify.systems.transfer.options import Transfer, given_tokenizer, method_options
from relexify.tokens import vocabulary_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

__all__ = [
    "PriorText",
    "add_prior",
    "graft_initialisation",
    "has_prior",
    "initialise",
    "is_tokenizer_known",
    "method_inputs",
    "needed_roles",
    "prediction_key",
    "prior_text",
    "target_tokenizer",
]

_SLOW: tuple[InputKind, ...] = ("vectors", "bitext", "donor", "model")
"""Inputs of methods whose initialisations are cached."""
_FEW_TOKENS = 0.95
"""Share of the requested tokens below which a trained vocabulary is reported to be small; trainers may miss the number
by a few tokens."""
_TOKENIZER = "tokenizer"
"""The kind of trained tokenizers in the cache."""
_ROTATION_FILE = "rotation.safetensors"
_PRECOMPUTED_FILE = "precomputed.safetensors"
_PRIOR_FILE = "prior.safetensors"

logger = logging.getLogger(__name__)


def target_tokenizer(options: Transfer, source: PreTrainedTokenizerFast, evidence: Evidence) -> PreTrainedTokenizerFast:
    """Load the tokenizer that the options name, or that of a donor, or train or extend one on the text (cached)."""
    if options.keep_source:
        return extend_vocabulary(options, source, evidence).tokenizer
    method = METHODS[options.method]
    if (named := given_tokenizer(options)) is not None:
        return load_tokenizer(named)
    corpus, size = evidence.corpus, options.vocab_size
    if method.train_tokenizer is not None:
        trained = method.train_tokenizer(source, evidence, vocab_size=size, options=method_options(options))
    else:
        config = load_config(options.model)
        trained = cached(
            _TOKENIZER,
            _tokenizer_key(options, source, evidence),
            make=lambda: train_tokenizer(corpus, like=source, vocab_size=size, config=config),
            save=save_tokenizer,
            load=load_tokenizer,
        )
    if (found := len(vocabulary_of(trained))) < _FEW_TOKENS * size:
        logger.warning(
            "the text gives only %s tokens, not %s: give more text, or a smaller vocabulary",
            f"{found:,}",
            f"{size:,}",
        )
    return trained


def is_tokenizer_known(options: Transfer, source: PreTrainedTokenizerFast, evidence: Evidence) -> bool:
    """Whether `target_tokenizer` has nothing to train: one is given, or an earlier run has trained it."""
    if options.keep_source:
        return is_extended(options, source, evidence)
    if given_tokenizer(options) is not None:
        return True
    is_plain = METHODS[options.method].train_tokenizer is None
    return is_plain and is_cached(_TOKENIZER, _tokenizer_key(options, source, evidence))


def needed_roles(model: PreTrainedModel) -> tuple[str, ...]:
    """Return the special tokens that a tokenizer must have for a model."""
    kind = architecture_of(model)
    return {"encoder": ("mask", "pad"), "encoder-decoder": ("pad", "eos")}.get(kind, ())


def method_inputs(
    options: Transfer,
    evidence: Evidence,
    model: PreTrainedModel,
    source: PreTrainedTokenizerFast,
    target: PreTrainedTokenizerFast,
) -> Inputs:
    """Return the inputs of the method of a transfer; whatever is slow is read when the method needs it."""

    def read_output() -> np.ndarray | None:
        head = model.get_output_embeddings()
        if head is None or is_tied(model):
            return None
        return weight_rows(head)

    def read_donor() -> tuple[PreTrainedTokenizerFast, np.ndarray]:
        name = str(options.donor)
        return load_tokenizer(name), weight_rows(load_model(name).get_input_embeddings())

    return Inputs(
        source=source,
        target=target,
        evidence=evidence,
        read_embedding=lambda: weight_rows(model.get_input_embeddings()),
        read_rows=lambda which: weight_rows(model.get_input_embeddings(), which),
        read_output=read_output,
        read_donor=None if options.donor is None else read_donor,
        read_model=lambda: model,
        neighbours=options.neighbours,
        temperature=options.temperature,
        aligned_by=options.aligned_by,
        adversarial=options.adversarial,
        vectors=options.vectors,
        overrides=options.overrides,
        options=method_options(options),
        keep_source=options.keep_source,
        seed=options.seed,
        device=options.device,
    )


def initialise(method: str, inputs: Inputs) -> Initialisation:
    """Build the initialisation of a method; if it takes vectors, parallel text or another model, it is cached."""
    chosen = METHODS[method]
    if not any(chosen.takes(kind) for kind in _SLOW):
        return chosen.initialise(inputs)
    # A mixture without the model's own embedding serves every size and every fine-tune of a model family, and takes no
    # memory for a large one.
    given: dict[InputKind, object] = {"dictionary": inputs.evidence.lexicon, "bitext": inputs.evidence.bitext}
    beside = [kind for kind, evidence in given.items() if evidence is not None]
    reads_rows = chosen.takes("embedding") or (chosen.takes("vectors", beside=beside) and inputs.reads_own_embedding)
    key: dict[str, object] = {
        "method": method,
        "revision": (chosen.revision, EVIDENCE),
        "inputs": inputs,
        "embedding": inputs.embedding if reads_rows else None,
    }
    if chosen.takes("embedding"):
        key["output"] = inputs.output_embedding
    if chosen.takes("bitext") and len(inputs.scored_pairs):
        key["scored_pairs"] = inputs.scored_pairs
    if chosen.takes("donor"):
        key["donor"] = inputs.donor_vectors.matrix
    if chosen.takes("model") and inputs.read_model is not None:
        key["model"] = inputs.read_model()
    return cached(
        "mixture",
        key,
        make=lambda: chosen.initialise(inputs),
        save=_save_initialisation,
        load=_load_initialisation,
    )


def graft_initialisation(
    options: Transfer,
    method: str,
    model: PreTrainedModel,
    target: PreTrainedTokenizerFast,
    built: Initialisation,
) -> Graft:
    """Graft an initialisation; the result shares the inner parameters of the model, or has untrained ones."""
    return graft(
        fresh_twin(model, seed=options.seed) if METHODS[method].fresh_inner else model,
        target,
        built.mixture,
        precomputed=built.precomputed,
        seed=options.seed,
        pad_to_multiple_of=options.pad_to_multiple_of,
        copy_inner=False,
    )


def has_prior(options: Transfer) -> bool:
    """Whether grafted models get the unigram distribution of the text: as requested, or else as the method does it."""
    if options.unigram_prior is not None:
        return options.unigram_prior
    return METHODS[options.method].unigram_prior


class PriorText(NamedTuple):
    """Paragraphs of the target language, and, if a vocabulary is extended, of the source language."""

    target: list[str]
    source: list[str] | None


def prior_text(options: Transfer, model: PreTrainedModel, evidence: Evidence) -> PriorText | None:
    """Return the text whose unigram distribution grafted models get; None if they get none."""
    if not has_prior(options):
        return None
    if architecture_of(model) == "headless":
        logger.warning("%s has no language-modelling head, so it gets no unigram prior", type(model).__name__)
        return None
    own = evidence.source_corpus if options.keep_source else None
    return PriorText(
        target=sample_paragraphs(evidence.corpus, seed=options.seed),
        source=None if own is None else sample_paragraphs(own, seed=options.seed),
    )


def add_prior(options: Transfer, result: Graft, text: PriorText | None) -> UnigramReport | None:
    """Give a grafted model the unigram distribution of a text (cached), in place; do nothing if there is no text."""
    if text is None:
        return None
    model, tokenizer = result.model.to(options.device), result.tokenizer
    kept = len(result.mixture.source_tokens) if options.keep_source else 0
    prior = cached(
        "unigram-prior",
        {
            **prediction_key(model, tokenizer, text, options.device),
            "kept": kept,
            "seed": options.seed,
            "revision": PRIORS,
        },
        make=lambda: find_unigram_prior(
            model, tokenizer, text.target, kept=kept, source=text.source, seed=options.seed
        ),
        save=lambda prior, folder: prior.save(folder / _PRIOR_FILE),
        load=lambda folder: UnigramPrior.load(folder / _PRIOR_FILE),
    )
    prior.apply(model)
    return prior.report


def prediction_key(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, text: object, device: str
) -> dict[str, object]:
    """Return everything that the predictions of a model depend on, for the cache."""
    config = {**model.config.to_dict(), "_name_or_path": None}  # the same model may be in several folders
    kind = torch.device(device).type  # a GPU may compute in another precision
    return {"model": fingerprint(model), "config": config, "tokenizer": tokenizer, "text": text, "device": kind}


def _tokenizer_key(options: Transfer, source: PreTrainedTokenizerFast, evidence: Evidence) -> dict[str, object]:
    """Return everything that a trained tokenizer depends on, for the cache."""
    return {
        "corpus": evidence.corpus,
        "like": source,
        "vocab_size": options.vocab_size,
        "revision": TOKENIZERS,
        "model_type": load_config(options.model).model_type,
    }


def _save_initialisation(built: Initialisation, folder: Path) -> None:
    built.mixture.save(folder / MIXTURE_FILE)
    if built.rotation is not None:
        built.rotation.save(folder / _ROTATION_FILE)
    if built.precomputed is not None:
        arrays = {"ids": built.precomputed.ids, "vectors": built.precomputed.vectors}
        if built.precomputed.output is not None:
            arrays["output"] = built.precomputed.output
        save_arrays(folder / _PRECOMPUTED_FILE, arrays, {"kind": "precomputed rows"})


def _load_initialisation(folder: Path) -> Initialisation:
    rotation, ready = folder / _ROTATION_FILE, folder / _PRECOMPUTED_FILE
    rows = None
    if ready.exists():
        arrays, _ = load_arrays(ready, "precomputed rows")
        output = np.array(arrays["output"]) if "output" in arrays else None
        rows = PrecomputedRows(np.array(arrays["ids"]), np.array(arrays["vectors"]), output)
    return Initialisation(
        Mixture.load(folder / MIXTURE_FILE),
        precomputed=rows,
        rotation=Rotation.load(rotation) if rotation.exists() else None,
    )
