"""FOCUS: a target token is mixed from the tokens that both vocabularies have (Dobler and de Melo, 2023).

e_x = Σ_y sparsemax(cos(u_x, u_y)) e_y over the shared tokens y, with vectors u of the target tokens, trained on text
in the target language cut into them. Shared tokens are copied.
"""

from __future__ import annotations

from collections.abc import Mapping

from relexify.evidence.vectors import SubwordVectors
from relexify.methods.parts.anchors import mix_anchors
from relexify.methods.parts.copying import shared, special
from relexify.methods.registry import METHODS, Method
from relexify.mixture import Mixture, first_of
from relexify.tokens import AnyVocabulary, vocabulary_of

__all__ = ["focus"]


def focus(
    source_tokenizer: AnyVocabulary,
    target: SubwordVectors,
    *,
    overrides: Mapping[str, str] | None = None,
    device: str = "cpu",
) -> Mixture:
    """Copy shared tokens, and mix the others from them by similarity in the target language.

    Args:
        source_tokenizer: The model's tokenizer.
        target: Vectors of the target tokens, trained on text that the target tokenizer has cut.
        overrides: Source token by target token, as `special` takes them.
        device: Where to multiply: `"cpu"` or a torch device.

    Raises:
        EvidenceError: No shared token has a vector.
    """
    source = vocabulary_of(source_tokenizer)
    copied = shared(source, target.vocabulary)
    mixed = mix_anchors(source, target, copied, device=device)
    return first_of(special(source, target.vocabulary, overrides=overrides), copied, mixed, method="focus")


METHODS.add(
    "focus",
    Method(
        becomes="shared tokens, by similarity in vectors of the target tokens",
        evidence="text in the target language",
        paper="Dobler and de Melo 2023",
        build=lambda inputs: focus(
            inputs.source, inputs.target_token_vectors, overrides=inputs.overrides, device=inputs.device
        ),
        uses=("overrides",),
    ),
)
