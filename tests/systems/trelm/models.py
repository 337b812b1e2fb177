"""Models for the tests of the TRILayer, and the equations of the paper."""

from __future__ import annotations

from typing import Any

import torch
from transformers import (
    AlbertConfig,
    AlbertForMaskedLM,
    BertConfig,
    BertForMaskedLM,
    BertForPreTraining,
    RobertaConfig,
    RobertaForMaskedLM,
    XLMConfig,
    XLMWithLMHeadModel,
)
from transformers.masking_utils import create_bidirectional_mask

from relexify.systems.trelm.model.encoder import UNALIGNED
from relexify.systems.trelm.model.heads import TriLayerForMaskedLM

SIZES = {"hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 64}


def bert() -> Any:
    return drawn(
        BertForPreTraining(BertConfig(**SIZES, vocab_size=90, max_position_embeddings=24, pad_token_id=0)).eval()
    )


def bert_without_next_sentence() -> Any:
    return drawn(BertForMaskedLM(BertConfig(**SIZES, vocab_size=90, max_position_embeddings=24, pad_token_id=0)).eval())


def roberta() -> Any:
    config = RobertaConfig(**SIZES, vocab_size=90, max_position_embeddings=26, pad_token_id=1, type_vocab_size=1)
    return drawn(RobertaForMaskedLM(config).eval())


def albert() -> Any:
    config = AlbertConfig(**SIZES, embedding_size=12, vocab_size=90, max_position_embeddings=24, pad_token_id=0)
    return drawn(AlbertForMaskedLM(config).eval())


def xlm() -> Any:
    sizes = {"emb_dim": 32, "n_layers": 4, "n_heads": 2, "vocab_size": 90, "max_position_embeddings": 24}
    return drawn(XLMWithLMHeadModel(XLMConfig(**sizes, pad_token_id=0, bos_token_id=1, eos_token_id=2)).eval())


def drawn(model: Any) -> Any:
    """With biases and norms that are not zeros and ones, so that a lost one is seen."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.1)
    return model


BACKBONES = {
    "bert": bert,
    "bert without next sentence": bert_without_next_sentence,
    "roberta": roberta,
    "albert": albert,
    "xlm": xlm,
}
LENGTHS = (9, 5, 7)


def redraw(*models: Any) -> None:
    """Draw all parameters of some models at random, others for each of them."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for model in models:
            for parameter in model.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator))


def padded(model: Any, lengths: tuple[int, ...] = LENGTHS, seed: int = 1) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(5, 90, (len(lengths), max(lengths)), generator=generator)
    mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
    return {"input_ids": torch.where(mask == 1, ids, model.config.backbone.pad_token_id), "attention_mask": mask}


def logits_of_backbone(model: Any, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    output = model(**inputs)
    return output.prediction_logits if hasattr(output, "prediction_logits") else output.logits


def by_hand(
    model: TriLayerForMaskedLM,
    ids: list[int],
    languages: tuple[int, int] | None,
    *,
    order: list[int] | None = None,
    words: torch.Tensor | None = None,
    decoder: torch.nn.Linear | None = None,
) -> torch.Tensor:
    """The paper's equations for one sentence, with the model's own modules and no padding.

    Args:
        model: The model.
        ids: The sentence.
        languages: The languages before and after the TRILayer; None for a model without language embeddings.
        order: The source position of every target position; by default there is no reordering.
        words: The embedding of the words; the backbone's by default.
        decoder: The output layer; that of the model's head by default.
    """
    inner, embeddings, head = model.model, model.model.backbone.embeddings, model.head
    first = 0 if embeddings.position_embeddings.padding_idx is None else embeddings.position_embeddings.padding_idx + 1

    def position(count: int) -> torch.Tensor:
        return embeddings.position_embeddings(torch.arange(first, first + count)[None])

    def language(side: int) -> list[torch.Tensor]:
        return [] if languages is None else [inner.language_embeddings(torch.tensor([[languages[side]]]))]

    table = embeddings.word_embeddings.weight if words is None else words
    hidden = torch.cat([table[torch.tensor([ids])], inner.placeholder[None, None]], dim=1)
    kind = embeddings.token_type_embeddings(torch.zeros(1, len(ids) + 1, dtype=torch.long))
    for addend in (*language(0), kind, position(len(ids) + 1)):  # in the model's order: every bit is compared
        hidden = hidden + addend
    hidden = embeddings.LayerNorm(hidden)
    mapping = getattr(inner.backbone.encoder, "embedding_hidden_mapping_in", None)
    hidden = hidden if mapping is None else mapping(hidden)
    mask = create_bidirectional_mask(config=inner.backbone.config, inputs_embeds=hidden, attention_mask=None)
    layers = getattr(inner.backbone.encoder, "layer", None) or inner.backbone.encoder.albert_layer_groups
    for layer in layers[: len(layers) // 2]:
        hidden = layer(hidden, mask)
    order = list(range(len(ids))) if order is None else order
    hidden = torch.stack([hidden[:, len(ids) if index == UNALIGNED else index] for index in order], dim=1)
    addends = [*language(1), position(len(order))]
    if mapping is not None:
        addends = [sum(addends[1:], addends[0]) @ mapping.weight.T]
    for addend in addends:
        hidden = hidden + addend
    hidden = inner.trilayer(hidden, mask)
    for layer in layers[len(layers) // 2 :]:
        hidden = layer(hidden, mask)
    logits: torch.Tensor = (decoder or head.decoder)(head.norm(head.activation(head.dense(hidden))))
    return logits
