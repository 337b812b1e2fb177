"""A TRILayer model with a vocabulary for each language (TreLM, section 6.3, CdLM*)."""

from __future__ import annotations

import copy
import logging
import re
from typing import Any

import pytest
import torch
from transformers import AutoModel, AutoModelForMaskedLM, BertConfig, BertForMaskedLM, XLMWithLMHeadModel

from relexify.errors import GraftError, InputError, VocabularyError
from relexify.pretrained.architecture import architecture_of
from relexify.pretrained.loading import load_model
from relexify.systems.trelm.model.building import with_one_language, with_trilayer
from relexify.systems.trelm.model.encoder import UNALIGNED
from relexify.systems.trelm.model.folder import check_tokenizers
from relexify.systems.trelm.model.heads import TriLayerForMaskedLM
from relexify.systems.trelm.parameters import combine_halves, phase_pattern
from relexify.training.loss.forward import loss_forward
from tests import pico
from tests.systems.trelm.models import (
    BACKBONES,
    LENGTHS,
    SIZES,
    bert,
    by_hand,
    drawn,
    logits_of_backbone,
    padded,
    redraw,
    roberta,
)

TOKENS = 61
LONG = 130


def with_vocabulary(model: Any, tokens: int, seed: int = 5) -> Any:
    """A copy of the model with other word embeddings, other output embeddings and another bias."""
    kind = BertForMaskedLM if type(model).__name__.startswith("BertFor") else type(model)
    config = copy.deepcopy(model.config)
    config.vocab_size = tokens
    other = kind(config).eval()
    inner = {name: value for name, value in model.state_dict().items() if name in other.state_dict()}
    shapes = {name: value.shape for name, value in other.state_dict().items()}
    other.load_state_dict({n: v for n, v in inner.items() if v.shape == shapes[n]}, strict=False)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        other.get_input_embeddings().weight.copy_(
            torch.randn(other.get_input_embeddings().weight.shape, generator=generator)
        )
        other.get_output_embeddings().bias.copy_(torch.randn(tokens, generator=generator))
    other.tie_weights()
    return other


@pytest.fixture(params=list(BACKBONES))
def source(request: Any) -> Any:
    return BACKBONES[request.param]()


def joined(source: Any, tokens: int = TOKENS, **options: Any) -> TriLayerForMaskedLM:
    return with_trilayer(source, ("en", "xx"), target=with_vocabulary(source, tokens), **options)


def test_each_language_is_masked_and_predicted_by_its_own_table_and_head(source: Any) -> None:
    model, target = joined(source), with_vocabulary(source, TOKENS)
    with torch.no_grad():
        for language, own, ids in (("en", source, [7, 88, 30, 41, 7]), ("xx", target, [7, 60, 30, 41, 7])):
            table, decoder = own.get_input_embeddings().weight, own.get_output_embeddings()
            found = model(torch.tensor([ids]), language=language).logits
            assert torch.equal(found, by_hand(model, ids, None, words=table, decoder=decoder))
            assert found.shape[-1] == len(table)


def test_an_identity_alignment_changes_no_bit(source: Any) -> None:
    model = joined(source, LONG)
    inputs = padded(model)
    positions = torch.arange(max(LENGTHS)).expand(len(LENGTHS), -1)
    positions = torch.where(inputs["attention_mask"] == 1, positions, UNALIGNED)
    real = inputs["attention_mask"] == 1
    languages = torch.tensor([0, 1, 0])
    with torch.no_grad():
        plain = model(**inputs, languages=languages).logits
        through = model(
            **inputs, languages=languages, order=positions, target_attention_mask=inputs["attention_mask"]
        ).logits
    assert torch.equal(plain[real], through[real])


def test_a_translation_reads_by_one_vocabulary_and_writes_by_the_other(source: Any) -> None:
    model, ids, order = joined(source), [7, 88, 30, 41], [3, UNALIGNED, 0, 0, 2, 1, UNALIGNED]
    target = with_vocabulary(source, TOKENS)
    arrays = {"order": torch.tensor([order]), "target_languages": torch.tensor([1])}
    with torch.no_grad():
        found = model(torch.tensor([ids]), languages=torch.tensor([0]), **arrays).logits
        words, decoder = source.get_input_embeddings().weight, target.get_output_embeddings()
        expected = by_hand(model, ids, None, order=order, words=words, decoder=decoder)
    assert torch.allclose(found[..., :TOKENS], expected, atol=1e-5)
    assert (found[..., TOKENS:] == float("-inf")).all()


def test_rows_and_tokens_of_two_languages_can_share_a_batch(source: Any) -> None:
    model = joined(source, LONG)
    ids = torch.tensor([[5, 6, 7], [128, 9, 129]])
    with torch.no_grad():
        rows = model(ids, languages=torch.tensor([0, 1])).logits
        tokens = model(ids, languages=torch.tensor([[0, 0, 0], [1, 1, 1]])).logits
        for row, language, count in ((0, "en", 90), (1, "xx", LONG)):
            alone = model(ids[row : row + 1], language=language).logits[0]
            for together in (rows, tokens):
                assert torch.allclose(together[row, :, :count], alone, atol=1e-5)
        assert (rows[0, :, 90:] == float("-inf")).all()
        assert torch.equal(model(ids).logits, model(ids, language="xx").logits)
    with pytest.raises(InputError, match="does not have the language 'de'"):
        model(ids, language="de")


def test_without_a_trilayer_each_language_is_its_own_model(source: Any) -> None:
    model, target = joined(source, trilayer=False), with_vocabulary(source, TOKENS)
    ids = torch.tensor([[5, 6, 7, 60]])
    with torch.no_grad():
        for language, own in (("en", source), ("xx", target)):
            expected = logits_of_backbone(own, {"input_ids": ids})
            rounding = 1e-5 if isinstance(source, XLMWithLMHeadModel) else 0.0  # XLM computes in another order
            torch.testing.assert_close(model(ids, language=language).logits, expected, rtol=rounding, atol=rounding)


def test_there_are_no_language_embeddings_and_two_tables(source: Any) -> None:
    model, target = joined(source), with_vocabulary(source, TOKENS)
    names = {name for name, _ in model.named_parameters()}
    assert not any("language_embeddings" in name for name in names)
    assert torch.equal(model.model.source_words.weight, source.get_input_embeddings().weight)
    assert torch.equal(model.get_input_embeddings().weight, target.get_input_embeddings().weight)
    assert model.head.decoder.weight is model.get_input_embeddings().weight
    assert model.head.source_decoder.weight is model.model.source_words.weight
    everything = torch.cat([source.get_input_embeddings().weight, target.get_input_embeddings().weight])
    assert torch.allclose(model.model.placeholder, everything.mean(dim=0), atol=1e-6)
    assert architecture_of(model) == "encoder"


def test_it_survives_a_round_trip_bit_for_bit(source: Any, tmp_path: Any) -> None:
    model = joined(source)
    model.save_pretrained(tmp_path)
    ids = torch.tensor([[5, 6, 7], [8, 60, 9]])
    for loaded in (load_model(tmp_path), AutoModelForMaskedLM.from_pretrained(tmp_path)):
        values = loaded.state_dict()
        assert all(torch.equal(value, values[name]) for name, value in model.state_dict().items())
        assert loaded.head.source_decoder.weight is loaded.model.source_words.weight
        assert loaded.head.decoder.weight is loaded.get_input_embeddings().weight
        with torch.no_grad():
            languages = torch.tensor([0, 1])
            assert torch.equal(model(ids, languages=languages).logits, loaded(ids, languages=languages).logits)
    bare = AutoModel.from_pretrained(tmp_path)
    with torch.no_grad():
        for language in ("en", "xx"):
            expected = model.model(ids, language=language).last_hidden_state
            assert torch.equal(bare(ids, language=language).last_hidden_state, expected)


def test_an_output_embedding_of_its_own_stays_its_own(tmp_path: Any) -> None:
    config = BertConfig(**SIZES, vocab_size=90, max_position_embeddings=24, pad_token_id=0, tie_word_embeddings=False)
    source = drawn(BertForMaskedLM(config).eval())
    target = with_vocabulary(source, TOKENS)
    model = with_trilayer(source, ("en", "xx"), target=target, trilayer=False)
    model.save_pretrained(tmp_path)
    ids = torch.tensor([[5, 6, 7, 60]])
    for each in (model, load_model(tmp_path)):
        assert each.head.source_decoder.weight is not each.model.source_words.weight
        with torch.no_grad():
            assert torch.equal(each(ids, language="en").logits, source(ids).logits)
            assert torch.equal(each(ids, language="xx").logits, target(ids).logits)


@pytest.mark.parametrize("language", ["en", "xx"])
def test_an_exported_language_computes_the_same_as_before(source: Any, language: str, tmp_path: Any) -> None:
    model = joined(source)
    alone = with_one_language(model, language)
    assert alone.config.languages == [language]
    alone.save_pretrained(tmp_path)
    ids = torch.tensor([[5, 6, 7, 60]])
    with torch.no_grad():
        expected = model(ids, language=language).logits
        for each in (alone, load_model(tmp_path)):
            assert torch.equal(each(ids).logits, expected)
    assert sum(p.numel() for p in alone.parameters()) < sum(p.numel() for p in model.parameters())


def test_the_loss_of_a_step_is_that_of_the_model_itself(source: Any) -> None:
    model = joined(source, LONG)
    inputs = padded(model)
    labels = torch.where(inputs["input_ids"] > 30, inputs["input_ids"], -100)
    languages = torch.tensor([0, 1, 0])
    for options in ({"languages": languages}, {"language": "en"}, {"language": "xx"}, {}):
        for label_share in (1.0, 0.9):
            model.zero_grad()
            whole = model(**inputs, labels=labels, **options).loss * (labels != -100).sum()
            whole.backward()
            wanted = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
            model.zero_grad()
            with loss_forward(model, label_share=label_share):
                nats = model(**inputs, labels=labels, **options)
            nats.backward()
            assert torch.allclose(nats, whole, rtol=1e-5)
            for name, parameter in model.named_parameters():
                if name in wanted and parameter.grad is not None:
                    assert torch.allclose(parameter.grad, wanted[name], atol=2e-4), name
    with torch.no_grad():
        assert model(**inputs, language="en").logits.shape[-1] == 90  # the heads are back


def test_the_combination_has_the_mean_of_both_vocabularies(source: Any) -> None:
    there, back = joined(source), joined(source)
    redraw(there, back)
    first, second, both = (dict(m.named_parameters()) for m in (there, back, combine_halves(there, back)))
    for name in (
        "model.source_words.weight",
        "model.backbone.embeddings.word_embeddings.weight",
        "head.source_decoder.bias",
    ):
        assert torch.equal(both[name], (first[name] + second[name]) / 2)
    result = combine_halves(there, back)
    assert result.head.source_decoder.weight is result.model.source_words.weight


def test_phases_train_the_vocabularies_that_their_text_reaches(source: Any) -> None:
    model = joined(source)

    def trained(phase: Any) -> set[str]:
        return {name for name, _ in model.named_parameters() if re.search(phase_pattern(model, phase), name)}

    tables = {"model.source_words.weight", "model.backbone.embeddings.word_embeddings.weight"}
    assert tables | {"head.decoder.bias", "head.source_decoder.bias", "model.placeholder"} <= trained("commonality")
    assert tables <= trained("source-to-target")
    assert "head.source_decoder.bias" not in trained("source-to-target")
    assert tables | {"head.source_decoder.bias"} <= trained("target-to-source")
    for phase in ("specific", "specific with next sentences"):
        assert not any("source" in name for name in trained(phase))
        assert "head.decoder.bias" in trained(phase)


def test_models_and_options_that_do_not_fit_are_rejected(caplog: pytest.LogCaptureFixture) -> None:
    source = bert()
    target = with_vocabulary(source, TOKENS)
    with pytest.raises(GraftError, match="a bert and a roberta"):
        with_trilayer(source, target=roberta())
    narrow = BertForMaskedLM(
        BertConfig(**(SIZES | {"intermediate_size": 48}), vocab_size=TOKENS, max_position_embeddings=24)
    )
    with pytest.raises(GraftError, match="in one model, but"):
        with_trilayer(source, target=narrow)
    with pytest.raises(InputError, match="`embedding_size` is for a joint vocabulary"):
        with_trilayer(source, target=target, embedding_size=6)
    with pytest.raises(InputError, match="a bilingual model has two"):
        with_trilayer(source, ("en", "xx", "yy"), target=target)
    with pytest.raises(InputError, match="one vocabulary for all"):
        with_one_language(with_trilayer(source, ("en", "xx")), "xx")
    other = with_vocabulary(roberta(), TOKENS)
    other.config.pad_token_id = 3
    with pytest.raises(GraftError, match="padding id, which is 1 in one model, but 3"):
        with_trilayer(roberta(), target=other)
    model, big, small = with_trilayer(source, target=target), pico.wordpiece(size=200), pico.wordpiece(["a b"], size=20)
    for tokenizers, language in (((big, small), "source"), ((small, big), "target")):
        with pytest.raises(VocabularyError, match=f"the tokenizer of {language} has"):
            check_tokenizers(model, tokenizers)
    with torch.no_grad():
        target.base_model.encoder.layer[0].output.dense.bias.add_(1)
    with caplog.at_level(logging.WARNING):
        with_trilayer(source, target=target)
    assert "differ in 1 of" in caplog.text
