"""Train inner matrices through low-rank adapters (LoRA, Hu et al., 2021) of the package peft, or variants of them.

Each matrix W [outputs × inputs] that a stage would train is kept as it is, and B A is added to it, with A [r × inputs]
and B [outputs × r]. Only A, B and the parameters of the vocabulary are trained, so gradients and the state of the
optimiser take little memory. AdamW trains the adapters: Muon would orthogonalise A and B, which says nothing about B A.
After the stage, W + s B A replaces W, with s = alpha / r, or the adapters are written to a folder of their own.

rsLoRA (Kalajdzievski, 2023) has s = alpha / √r. DoRA (Liu et al., 2024) also trains the norm m of each row of W, and
replaces W by m (W + s B A) / |W + s B A|.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import torch
from safetensors.torch import save_file
from torch import nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from relexify.errors import importing
from relexify.storage.files import write_folder
from relexify.training.options import DORA, LORA, RSLORA, LoraVariant
from relexify.training.protocol import lexical_parameter_ids

if TYPE_CHECKING:
    from peft import LoraModel

__all__ = ["ADAPTERS", "Adapters", "add_adapters", "import_peft"]

ADAPTERS = "adapters"
"""The folder of adapters that are not merged, in that of a stage and in the output."""
RSLORA_ALPHA = 8
"""With a rank of 16, the factor is 2, as in LoRA."""


class Adapters:
    """The adapters on a model.

    Args:
        tuner: The `LoraModel` of peft, which put them there.
    """

    def __init__(self, tuner: LoraModel) -> None:
        self.tuner = tuner

    def merge(self) -> None:
        """Add the adapters to the matrices that they are on, and remove them."""
        self.tuner.merge_and_unload()
        self._forget()

    def separate(self, folder: Path | None) -> None:
        """Remove the adapters, and write them to a folder in the format of peft, if one is given."""
        if folder is not None:
            values = import_peft().get_peft_model_state_dict(self.tuner.model, save_embedding_layers=False)
            tensors = {f"base_model.model.{name}": value.cpu().contiguous() for name, value in values.items()}
            with write_folder(folder, internal=True) as beside:
                self.tuner.peft_config["default"].save_pretrained(str(beside))
                save_file(tensors, beside / "adapter_model.safetensors", metadata={"format": "pt"})
        self.tuner.unload()
        self._forget()

    def _forget(self) -> None:
        vars(self.tuner.model).pop("peft_config", None)  # older versions of peft leave it there


def add_adapters(
    model: PreTrainedModel, rank: int, *, variant: LoraVariant = LORA, alpha: float | None = None, seed: int = 0
) -> Adapters | None:
    """Put adapters on the trained inner matrices of a model, and freeze everything else but its trained vocabulary.

    Args:
        model: The model, whose parameters that are not trained are frozen.
        rank: r, the rank of the adapters.
        variant: The kind of adapter.
        alpha: Adapters are added with the factor alpha / r, in rsLoRA alpha / √r; 2 r by default, and 8 in rsLoRA.
        seed: Random seed of A; B starts as zero.

    Returns:
        The adapters; None if no inner matrix is trained.
    """
    lexical = lexical_parameter_ids(model)
    vocabulary = [each for each in model.parameters() if each.requires_grad and id(each) in lexical]
    layers = [
        (name, module)
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear | Conv1D) and module.weight.requires_grad and id(module.weight) not in lexical
    ]
    model.requires_grad_(False)
    adapters = None
    if layers:
        peft = import_peft()
        if alpha is None:
            alpha = RSLORA_ALPHA if variant == RSLORA else 2 * rank
        config = peft.LoraConfig(
            r=rank,
            lora_alpha=alpha,
            use_rslora=variant == RSLORA,
            use_dora=variant == DORA,
            target_modules=[name for name, _ in layers],
            fan_in_fan_out=any(isinstance(module, Conv1D) for _, module in layers),
        )
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            adapters = Adapters(peft.LoraModel(model, config, "default"))
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.data = parameter.data.float()
        for module in model.modules():
            if isinstance(module, peft.tuners.lora.LoraLayer):
                # Autocast chooses the number format of each product. With a cast to that of A, another copy of the
                # input would be kept for the backward pass.
                module.cast_input_dtype_enabled = False
    for parameter in vocabulary:
        parameter.requires_grad_(True)
    return adapters


def import_peft() -> ModuleType:
    """Return the package peft.

    Raises:
        MissingExtra: It is not installed.
    """
    with importing("peft", "training with adapters", "lora"):
        import peft
    return peft
