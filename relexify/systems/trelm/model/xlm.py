"""Convert XLM to a BERT with the same outputs. Its head has no transform: XLM's head scores the last states directly.

The conversion is needed because a TRILayer needs layers that are single modules, but a layer of XLM consists of four
modules in four lists.
"""

from __future__ import annotations

import torch
from torch import nn
from transformers import BertConfig, BertForMaskedLM, PreTrainedConfig, PreTrainedModel, XLMConfig, XLMWithLMHeadModel

from relexify.errors import GraftError

__all__ = ["as_bert", "backbone_config"]

_LAYER = {
    "attentions.{}.q_lin": "attention.self.query",
    "attentions.{}.k_lin": "attention.self.key",
    "attentions.{}.v_lin": "attention.self.value",
    "attentions.{}.out_lin": "attention.output.dense",
    "layer_norm1.{}": "attention.output.LayerNorm",
    "ffns.{}.lin1": "intermediate.dense",
    "ffns.{}.lin2": "output.dense",
    "layer_norm2.{}": "output.LayerNorm",
}
"""Names of the modules of a layer in XLM, each with its name in BERT."""


def backbone_config(config: PreTrainedConfig) -> PreTrainedConfig:
    """Return the config of the encoder to which a TRILayer is added: for an XLM, a BERT config; otherwise, the same.

    Raises:
        GraftError: The config describes an XLM that is not a masked language model of one language.
    """
    if not isinstance(config, XLMConfig):
        return config
    if config.causal or config.asm or not config.is_encoder or (config.n_langs > 1 and config.use_lang_emb):
        raise GraftError(
            "a TRILayer cannot be added to an XLM with causal attention, an adaptive softmax or embeddings of several "
            "languages: give a masked language model of one language, such as xlm-mlm-en-2048"
        )
    return BertConfig(
        vocab_size=config.vocab_size,
        hidden_size=config.emb_dim,
        num_hidden_layers=config.n_layers,
        num_attention_heads=config.n_heads,
        intermediate_size=4 * config.emb_dim,
        hidden_act="gelu" if config.gelu_activation else "relu",
        hidden_dropout_prob=config.dropout,
        attention_probs_dropout_prob=config.attention_dropout,
        max_position_embeddings=config.max_position_embeddings,
        initializer_range=config.init_std,
        layer_norm_eps=config.layer_norm_eps,
        pad_token_id=config.pad_token_id,
        bos_token_id=config.bos_token_id,
        eos_token_id=config.eos_token_id,
        tie_word_embeddings=config.tie_word_embeddings,
        head_transform=False,
    )


def as_bert(model: PreTrainedModel) -> PreTrainedModel:
    """Convert an XLM to a BERT with the same scores and no transform in its head; return other models unchanged.

    Raises:
        GraftError: The model is an XLM that is not a masked language model of one language.
    """
    if not isinstance(model, XLMWithLMHeadModel):
        return model
    inner = model.transformer
    with torch.random.fork_rng(devices=[]):  # random initial parameters are overwritten below
        bert = BertForMaskedLM(backbone_config(model.config)).to(model.dtype)
    bert.cls.predictions.transform = nn.Identity()
    embeddings = bert.bert.embeddings
    pairs: list[tuple[nn.Module, nn.Module]] = [
        (inner.embeddings, embeddings.word_embeddings),
        (inner.position_embeddings, embeddings.position_embeddings),
        (inner.layer_norm_emb, embeddings.LayerNorm),
        (model.pred_layer.proj, bert.cls.predictions.decoder),
    ]
    for number, layer in enumerate(bert.bert.encoder.layer):
        pairs += [(inner.get_submodule(xlm.format(number)), layer.get_submodule(name)) for xlm, name in _LAYER.items()]
    for xlm_module, bert_module in pairs:
        bert_module.load_state_dict(xlm_module.state_dict())
    nn.init.zeros_(embeddings.token_type_embeddings.weight)  # XLM has no segments
    bert.to(model.device).eval()
    return bert
