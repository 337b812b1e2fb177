"""From the evidence of a transfer to a grafted model: the inputs of the method, its initialisation, and the graft."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from relexify.evidence.alignment import Rotation
from relexify.evidence.evidence import Evidence
from relexify.grafting import Graft, graft, is_tied, load_own_tokenizer
from relexify.methods.inputs import Inputs
from relexify.methods.registry import METHODS, Initialisation, InputKind
from relexify.mixture import MIXTURE_FILE, Mixture, PrecomputedRows
from relexify.pretrained.loading import load_model
from relexify.pretrained.parameters.fresh import fresh_twin
from relexify.pretrained.parameters.lexical import weight_rows
from relexify.storage.arrays import load_arrays, save_arrays
from relexify.storage.cache import cached
from relexify.storage.revisions import EVIDENCE
from relexify.systems.transfer.options import Transfer, method_options
from relexify.text import sample_revisions

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

__all__ = ["graft_initialisation", "initialise", "method_inputs"]

_SLOW: tuple[InputKind, ...] = ("vectors", "bitext", "donor", "model")
"""Inputs of methods whose initialisations are cached."""
_ROTATION_FILE = "rotation.safetensors"
_PRECOMPUTED_FILE = "precomputed.safetensors"


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
        return load_own_tokenizer(name), weight_rows(load_model(name).get_input_embeddings())

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
    return cached(
        "mixture",
        _initialisation_key(method, inputs),
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


def _initialisation_key(method: str, inputs: Inputs) -> dict[str, object]:
    """Return everything that the initialisation of a method depends on, for the cache.

    The fingerprint of `Inputs` covers tokenizers, evidence and options. What it reads of models is added here, as far
    as the method takes it.
    """
    chosen = METHODS[method]
    # A mixture without the model's own embedding serves every size and every fine-tune of a model family, and takes no
    # memory for a large one.
    takes_vectors = chosen.takes("vectors", beside=inputs.translations)
    reads_rows = chosen.takes("embedding") or (takes_vectors and inputs.reads_own_embedding)
    key: dict[str, object] = {
        "method": method,
        "revision": (chosen.revision, EVIDENCE),
        "inputs": inputs,
        "embedding": inputs.embedding if reads_rows else None,
    }
    # Some methods sample the text. Without several sources, the key is that of earlier versions.
    key |= sample_revisions(inputs.evidence.corpus, inputs.evidence.source_corpus)
    if chosen.takes("embedding"):
        key["output"] = inputs.output_embedding
    if chosen.takes("bitext") and len(inputs.scored_pairs):
        key["scored_pairs"] = inputs.scored_pairs
    if chosen.takes("donor"):
        key["donor"] = inputs.donor_vectors.matrix
    if chosen.takes("model") and inputs.read_model is not None:
        key["model"] = inputs.read_model()
    return key


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
