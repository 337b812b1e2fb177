"""The parameters that each phase trains (section 3.3), and how both directions are combined (Algorithm 1, line 17)."""

from __future__ import annotations

import copy
import re
from typing import Literal

import torch

from relexify.errors import InputError
from relexify.systems.trelm.model.backbone import encoder_layers, family_of
from relexify.systems.trelm.model.heads import TriLayerForMaskedLM

__all__ = ["Half", "Phase", "combine_halves", "half_pattern", "phase_pattern"]

Half = Literal["lower", "upper"]
Phase = Literal["commonality", "source-to-target", "target-to-source", "specific", "specific with next sentences"]

_NEXT_SENTENCE = r"model\.backbone\.pooler\.|next_sentence\."
_SOURCE_VOCABULARY = r"model\.source_words\.|head\.source_decoder\."


def phase_pattern(model: TriLayerForMaskedLM, phase: Phase) -> str:
    """Return a regular expression for the names of the parameters that a phase trains.

    Parameters without a gradient in a phase are excluded, because weight decay would change them: heads without labels
    and, with separate vocabularies, those of the source language if the phase has no text in it.
    """
    if phase == "commonality":  # "only the embeddings and TRILayer are updated"
        inside = "|".join(
            (r"backbone\.embeddings", "language_embeddings", "source_words", "placeholder", "widening", "trilayer")
        )
        return rf"^model\.({inside})(\.|$)|^head\.(narrowing|decoder|source_decoder)\."
    # ^(?!a|b) matches every name that begins with neither a nor b.
    if phase == "specific":
        return f"^(?!{_NEXT_SENTENCE}|{_SOURCE_VOCABULARY})"
    if phase == "specific with next sentences":
        return f"^(?!{_SOURCE_VOCABULARY})"
    frozen = half_pattern(model, "lower" if phase == "source-to-target" else "upper").removeprefix("^")
    # From source to target, there are no labels in the source language.
    without_labels = r"|head\.source_decoder\." if phase == "source-to-target" else ""
    return f"^(?!{frozen}|{_NEXT_SENTENCE}{without_labels})"


def half_pattern(model: TriLayerForMaskedLM, half: Half) -> str:
    """Return a regular expression for the names of the parameters of one half of the layers."""
    backbone = model.model.backbone
    count = len(encoder_layers(backbone))
    indices = range(count // 2) if half == "lower" else range(count // 2, count)
    layers = re.escape(f"model.backbone.{family_of(backbone.config).layers}.")
    return rf"^{layers}({'|'.join(map(str, indices))})\."


def combine_halves(source_to_target: TriLayerForMaskedLM, target_to_source: TriLayerForMaskedLM) -> TriLayerForMaskedLM:
    """Return the model that reads and writes the target language.

    Its upper half is from the first model, where it was trained to write the target language, and its lower half from
    the second model, where it was trained to read the target language. All other parameters are the mean of both
    models.

    Args:
        source_to_target: Trained from the source language to the target language.
        target_to_source: Trained the other way round, from the same initial model.

    Raises:
        InputError: The two models have different parameters.
    """
    first, second = dict(source_to_target.named_parameters()), dict(target_to_source.named_parameters())
    if {name: value.shape for name, value in first.items()} != {name: value.shape for name, value in second.items()}:
        raise InputError("the two models have different parameters: train both from the same model")
    result = copy.deepcopy(source_to_target)
    upper, lower = re.compile(half_pattern(result, "upper")), re.compile(half_pattern(result, "lower"))
    with torch.no_grad():
        for name, parameter in result.named_parameters():
            if upper.search(name):
                continue
            if lower.search(name):
                parameter.copy_(second[name])
            else:
                parameter.copy_((first[name].float() + second[name].float()) / 2)
    return result
