"""Which parameters a phase of TreLM trains (section 3.3)."""

from __future__ import annotations

import copy
import re
from typing import Literal

import torch

from relexify.errors import InputError
from relexify.systems.trelm.model.backbone import family_of, layers_of
from relexify.systems.trelm.model.heads import TriLayerForMaskedLM

__all__ = ["Phase", "combined", "half_pattern", "phase_pattern"]

Phase = Literal["commonality", "source-to-target", "target-to-source", "specific", "specific with next sentences"]
_FOLLOWS = r"model\.backbone\.pooler\.|next_sentence\."
_SOURCE = r"model\.source_words\.|head\.source_decoder\."
Half = Literal["lower", "upper"]


def phase_pattern(model: TriLayerForMaskedLM, phase: Phase) -> str:
    """A regular expression for the parameters that a phase trains: those that are not frozen and that its text reaches.

    With a vocabulary for each language, the source language's is left as it is once no text of that language comes.
    """
    if phase == "commonality":  # "only the embeddings and TRILayer are updated"
        inside = "|".join(
            (r"backbone\.embeddings", "language_embeddings", "source_words", "placeholder", "widening", "trilayer")
        )
        return rf"^model\.({inside})(\.|$)|^head\.(narrowing|decoder|source_decoder)\."
    if phase == "specific":
        return f"^(?!{_FOLLOWS}|{_SOURCE})"
    if phase == "specific with next sentences":
        return f"^(?!{_SOURCE})"
    half = half_pattern(model, "lower" if phase == "source-to-target" else "upper").removeprefix("^")
    # Nothing is written in the source language on the way from it.
    unasked = r"|head\.source_decoder\." if phase == "source-to-target" else ""
    return f"^(?!{half}|{_FOLLOWS}{unasked})"


def combined(source_to_target: TriLayerForMaskedLM, target_to_source: TriLayerForMaskedLM) -> TriLayerForMaskedLM:
    """The model that reads and writes the target language.

    The upper half is that of the first model, which learnt to write the target language, the lower half that of the
    second, which learnt to read it. All other parameters are the mean of both.

    Args:
        source_to_target: Trained from the source language to the target language.
        target_to_source: Trained the other way round, from the same beginning.

    Raises:
        InputError: The two models are not built alike.
    """
    first, second = dict(source_to_target.named_parameters()), dict(target_to_source.named_parameters())
    if {name: value.shape for name, value in first.items()} != {name: value.shape for name, value in second.items()}:
        raise InputError("the two models are not built alike: train both from the same one")
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


def half_pattern(model: TriLayerForMaskedLM, half: Half) -> str:
    """A regular expression for the names of the parameters of one half of the layers."""
    backbone = model.model.backbone
    count = len(layers_of(backbone))
    places = range(count // 2) if half == "lower" else range(count // 2, count)
    layers = re.escape(f"model.backbone.{family_of(backbone.config).layers}.")
    return rf"^{layers}({'|'.join(map(str, places))})\."
