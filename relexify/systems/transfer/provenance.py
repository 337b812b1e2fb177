"""What a transfer was made from, and whether an output is already its result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from relexify.errors import OutputError
from relexify.evidence.evidence import Evidence
from relexify.pretrained.files.weights import find_file, identify_weights, sha256_of_weights
from relexify.pretrained.loading import load_config, load_model, load_tokenizer
from relexify.pretrained.names import resolve
from relexify.storage.files import Provenance, check_output
from relexify.storage.fingerprint import BY_CONTENT, fingerprint
from relexify.storage.json import read_json
from relexify.storage.notes import read_notes
from relexify.systems.transfer.checks import is_repeated, transfer_revisions
from relexify.systems.transfer.options import Transfer, command_of, method_options
from relexify.version import __version__

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

__all__ = ["is_finished", "provenance_of"]

_SETTINGS = "_settings"
"""Ends the name of the hash of what a model has besides weights, which is recorded for a model of any size."""


def is_finished(options: Transfer, evidence: Evidence) -> bool:
    """Whether the output is already the result of this transfer: of the same options, inputs and version.

    Raises:
        OutputError: It was made with the same options, but from other inputs or by another version.
    """
    if not is_repeated(options):
        return False
    before = read_notes(options.output)["provenance"]
    recorded, current = before["inputs"], _hash_evidence(options, evidence)
    for name, model in (("model", options.model), ("donor", options.donor)):
        if model is not None and name not in recorded:  # it is large and was never read, so it was not hashed
            check_output(options.output)  # raises, because the output exists
        elif model is not None:
            current[name] = sha256_of_weights(model) or fingerprint(load_model(model, next_sentence=name == "model"))
            current[name + _SETTINGS] = _hash_settings(model)
    # Any other tokenizer is determined by the other inputs.
    current["tokenizer"] = recorded["tokenizer"]
    if options.tokenizer:
        current["tokenizer"] = fingerprint(load_tokenizer(options.tokenizer))
    if before["version"] != __version__:
        check_output(options.output)  # raises, as above
    if changed := sorted(name for name in {*recorded, *current} if recorded.get(name) != current.get(name)):
        raise OutputError(
            f"{options.output} was made from other inputs (changed: {', '.join(changed)}): choose another name, or "
            "replace it with `overwrite`"
        )
    return True


def provenance_of(
    options: Transfer,
    evidence: Evidence,
    model: PreTrainedModel,
    target: PreTrainedTokenizerFast,
    earlier: Mapping[str, Any] | None,
    *,
    is_read: bool,
) -> Provenance:
    """Return the hashes of all inputs, the options, the revisions, and the provenance of a model that relexify made.

    Args:
        options: The transfer.
        evidence: Its evidence.
        model: The source model.
        target: The target tokenizer.
        earlier: The provenance of the source model.
        is_read: Whether the inner parameters of the model were read.
    """
    models = {"model": identify_weights(options.model, model, is_read=is_read)}
    if options.donor is not None:
        models["donor"] = identify_weights(options.donor, load_model(options.donor), is_read=False)
    inputs = {name: digest for name, digest in models.items() if digest is not None}
    sources = {"model": options.model, "donor": options.donor}
    inputs |= {name + _SETTINGS: _hash_settings(each) for name, each in sources.items() if each is not None}
    inputs |= {**_hash_evidence(options, evidence), "tokenizer": fingerprint(target)}
    return Provenance(
        version=__version__,
        command=command_of(options),
        inputs=inputs,
        seed=options.seed,
        source=earlier,
        revisions=transfer_revisions(options),
    )


def _hash_settings(model: str) -> str:
    """Return the hash of what a model has besides weights: config, generation options and tokenizer."""
    generation = find_file(resolve(model), "generation_config.json")
    return fingerprint([load_config(model), generation and read_json(generation), load_tokenizer(model)])


def _hash_evidence(options: Transfer, evidence: Evidence) -> dict[str, str]:
    """Return the hashes of all inputs, except models and tokenizers."""
    parts = evidence.by_option
    if (own := method_options(options)) is not None:
        parts |= {entry.name: getattr(own, entry.name) for entry in fields(own) if entry.metadata == BY_CONTENT}
    return {name: fingerprint(part) for name, part in parts.items() if part is not None}
