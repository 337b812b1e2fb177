from __future__ import annotations

import copy
import re
import subprocess
import sys
import textwrap
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import (
    AutoModel,
    AutoModelForMaskedLM,
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    XLMWithLMHeadModel,
)

from relexify.errors import GraftError, InputError
from relexify.evaluation.parsing.biaffine import BiaffineParser
from relexify.pretrained.architecture import architecture_of, usable_length
from relexify.pretrained.loading import load_model
from relexify.systems.trelm.model.building import with_trilayer
from relexify.systems.trelm.model.encoder import UNALIGNED, TriLayerModel, check_order, reorder
from relexify.systems.trelm.model.heads import TriLayerForMaskedLM
from relexify.systems.trelm.parameters import combine_halves, half_pattern
from tests import pico
from tests.systems.trelm.models import (
    BACKBONES,
    LENGTHS,
    SIZES,
    albert,
    bert,
    by_hand,
    drawn,
    logits_of_backbone,
    padded,
    redraw,
    roberta,
    xlm,
)


@pytest.fixture(params=list(BACKBONES))
def backbone(request: Any) -> Any:
    return BACKBONES[request.param]()


def test_masked_language_modelling_is_the_layers_in_the_papers_order(backbone: Any) -> None:
    model, ids = with_trilayer(backbone), [7, 8, 30, 41, 7, 22]
    with torch.no_grad():
        found = model(torch.tensor([ids]), languages=torch.tensor([0])).logits
        assert torch.equal(found, by_hand(model, ids, (0, 0)))


def test_an_identity_alignment_changes_no_bit(backbone: Any) -> None:
    model = with_trilayer(backbone)
    inputs = padded(model)
    positions = torch.arange(max(LENGTHS)).expand(len(LENGTHS), -1)
    positions = torch.where(inputs["attention_mask"] == 1, positions, UNALIGNED)
    with torch.no_grad():
        plain = model(**inputs).logits
        through = model(**inputs, order=positions, target_attention_mask=inputs["attention_mask"]).logits
    real = inputs["attention_mask"] == 1
    assert torch.equal(plain[real], through[real])


def test_a_translation_follows_its_alignment(backbone: Any) -> None:
    model, ids, order = with_trilayer(backbone), [7, 8, 30, 41], [3, UNALIGNED, 0, 0, 2, 1, UNALIGNED]
    arrays = {"order": torch.tensor([order]), "target_languages": torch.tensor([1])}
    with torch.no_grad():
        found = model(torch.tensor([ids]), languages=torch.tensor([0]), **arrays).logits
        assert found.shape[1] == len(order)
        expected = by_hand(model, ids, (0, 1), order=order)
        assert torch.allclose(found, expected, atol=1e-5)
        assert not torch.allclose(found, by_hand(model, ids, (1, 1), order=order), atol=1e-3)
        assert not torch.allclose(found, by_hand(model, ids, (0, 0), order=order), atol=1e-3)


def test_padding_changes_nothing_on_either_side(backbone: Any) -> None:
    model = with_trilayer(backbone)
    inputs = padded(model)
    targets, longest = [[0, 2, UNALIGNED, 1], [4, 3, 2, 1, 0, UNALIGNED], [6]], 8
    order = torch.tensor([row + [UNALIGNED] * (longest - len(row)) for row in targets])
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in targets])
    languages, others = torch.tensor([0, 1, 0]), torch.tensor([1, 0, 0])
    with torch.no_grad():
        together = model(
            **inputs, languages=languages, order=order, target_attention_mask=mask, target_languages=others
        ).logits
        for row, length in enumerate(LENGTHS):
            alone = model(
                inputs["input_ids"][row : row + 1, :length],
                languages=languages[row : row + 1],
                order=torch.tensor([targets[row]]),
                target_languages=others[row : row + 1],
            ).logits
            assert torch.allclose(together[row, : len(targets[row])], alone[0], atol=1e-5)


def test_states_are_put_into_the_order_of_the_alignment() -> None:
    states = torch.tensor([[[10.0], [11.0], [12.0], [99.0]], [[20.0], [21.0], [22.0], [98.0]]])
    found = reorder(states, torch.tensor([[2, 2, UNALIGNED, 0, 1], [UNALIGNED, 0, 0, 1, 2]]))
    assert found[..., 0].tolist() == [[12, 12, 99, 10, 11], [98, 20, 20, 21, 22]]


@pytest.mark.parametrize(
    ("order", "part"),
    [
        ([[0, 5], [0, 1]], "source position 5, but the source sentence has 5 tokens"),
        ([[0, 1], [3, 1]], "source position 3, but the source sentence has 3 tokens"),
        ([[0, -2], [0, 1]], "source position -2"),
        ([[0, 1]], "does not fit 2 sentences"),
        ([[0] * 9, [0] * 9], "9 target positions, and the model has room for 8"),
    ],
)
def test_orders_outside_the_sentence_are_rejected(order: list[list[int]], part: str) -> None:
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    with pytest.raises(InputError, match=part):
        check_order(torch.tensor(order), mask, 8)


def test_the_model_rejects_a_wrong_order_and_a_long_sentence(backbone: Any) -> None:
    model = with_trilayer(backbone)
    with pytest.raises(InputError, match="source position 4"):
        model(torch.tensor([[5, 6, 7]]), order=torch.tensor([[4]]))
    longest = usable_length(model)
    assert longest == 23
    model(torch.full((1, longest), 7))
    with pytest.raises(InputError, match="24 tokens, and the model has room for 23"):
        model(torch.full((1, longest + 1), 7))
    with pytest.raises(InputError, match="24 target positions"):
        model(torch.tensor([[5, 6]]), order=torch.zeros(1, longest + 1, dtype=torch.long))


def test_the_initial_parameters_are_those_of_the_paper(backbone: Any) -> None:
    model = with_trilayer(backbone, ("en", "zh"))
    below = model.model.lower[-1].state_dict()
    assert all(torch.equal(value, below[name]) for name, value in model.model.trilayer.state_dict().items())
    assert model.model.trilayer is not model.model.lower[-1]
    rows = model.model.language_embeddings.weight
    assert torch.allclose(rows @ rows.T, torch.eye(2), atol=1e-5)
    assert len(model.model.lower) == len(model.model.upper) == 2
    assert model.config.num_hidden_layers == 5
    words = model.get_input_embeddings().weight
    assert torch.equal(words, backbone.get_input_embeddings().weight)
    assert torch.allclose(model.model.placeholder, words.mean(dim=0), atol=1e-6)  # which the paper does not say


def test_building_leaves_the_random_state_and_the_backbone_alone(backbone: Any) -> None:
    before, values = torch.random.get_rng_state(), copy.deepcopy(backbone.state_dict())
    first, again = with_trilayer(backbone, seed=4), with_trilayer(backbone, seed=4)
    other = with_trilayer(backbone, seed=5)
    assert torch.equal(before, torch.random.get_rng_state())
    assert all(torch.equal(value, values[name]) for name, value in backbone.state_dict().items())
    assert all(torch.equal(value, again.state_dict()[name]) for name, value in first.state_dict().items())
    assert not torch.equal(first.model.language_embeddings.weight, other.model.language_embeddings.weight)


def test_without_a_trilayer_and_a_language_it_is_the_backbone(backbone: Any) -> None:
    model = with_trilayer(backbone, trilayer=False)
    torch.nn.init.zeros_(model.model.language_embeddings.weight)
    inputs = padded(model)
    with torch.no_grad():
        found, expected = model(**inputs).logits, logits_of_backbone(backbone, inputs)
    if isinstance(backbone, XLMWithLMHeadModel):  # computes in another order, and sets the states of padding to zero
        real = inputs["attention_mask"] == 1
        assert torch.allclose(found[real], expected[real], atol=1e-5)
    else:
        assert torch.equal(found, expected)
    with pytest.raises(InputError, match="no TRILayer"):
        model(**inputs, order=torch.zeros(3, 2, dtype=torch.long))
    assert model.config.num_hidden_layers == 4
    assert usable_length(model) == 24


def test_it_survives_a_round_trip_bit_for_bit(backbone: Any, tmp_path: Any) -> None:
    for options in ({}, {"trilayer": False}, {"embedding_size": 6}):
        model = with_trilayer(backbone, ("en", "zh"), **options)
        folder = tmp_path / "-".join(map(str, options.items() or ["plain"]))
        model.save_pretrained(folder)
        for loaded in (load_model(folder), AutoModelForMaskedLM.from_pretrained(folder)):
            assert isinstance(loaded, TriLayerForMaskedLM)
            assert loaded.config.languages == ["en", "zh"]
            values = loaded.state_dict()
            assert all(torch.equal(value, values[name]) for name, value in model.state_dict().items())
            inputs = padded(model)
            with torch.no_grad():
                assert torch.equal(model(**inputs).logits, loaded(**inputs).logits)
            assert (loaded.head.decoder.weight is loaded.get_input_embeddings().weight) == (
                model.head.decoder.weight is model.get_input_embeddings().weight
            )
        bare = AutoModel.from_pretrained(folder)
        assert isinstance(bare, TriLayerModel)
        with torch.no_grad():
            assert torch.equal(bare(**inputs).last_hidden_state, model.model(**inputs).last_hidden_state)


def test_an_embedding_in_fewer_columns_is_the_same_model_as_its_product(backbone: Any) -> None:
    narrow = with_trilayer(backbone, embedding_size=6)
    wide = with_trilayer(backbone)
    product = narrow.model.widening(narrow.get_input_embeddings().weight)
    assert narrow.get_input_embeddings().weight.shape == (90, 6)
    best = torch.linalg.svd(backbone.get_input_embeddings().weight, full_matrices=False)
    assert torch.allclose(product, (best.U[:, :6] * best.S[:6]) @ best.Vh[:6], atol=1e-4)
    with torch.no_grad():
        wide.get_input_embeddings().weight.copy_(product)
        wide.model.placeholder.copy_(narrow.model.widening(narrow.model.placeholder))
        inputs = padded(wide)
        assert torch.allclose(narrow(**inputs).logits, wide(**inputs).logits, atol=1e-4)


def test_gradients_reach_both_halves_languages_and_placeholder(backbone: Any) -> None:
    model = with_trilayer(backbone)
    output = model(
        torch.tensor([[5, 6, 7, 8]]),
        languages=torch.tensor([0]),
        order=torch.tensor([[2, UNALIGNED, 0]]),
        target_languages=torch.tensor([1]),
        labels=torch.tensor([[9, 10, 11]]),
    )
    output.loss.backward()
    without = {name for name, parameter in model.named_parameters() if parameter.grad is None}
    assert without <= {
        "model.backbone.pooler.dense.weight", "model.backbone.pooler.dense.bias",
        "next_sentence.weight", "next_sentence.bias",
    }  # fmt: skip
    assert (model.model.language_embeddings.weight.grad.abs().sum(dim=1) > 0).all()
    assert model.model.placeholder.grad.abs().sum() > 0


def test_languages_are_given_by_name_by_row_or_by_token(backbone: Any) -> None:
    model, ids = with_trilayer(backbone, ("en", "zh")), torch.tensor([[5, 6, 7], [8, 9, 10]])
    with torch.no_grad():
        assert torch.equal(model(ids).logits, model(ids, language="zh").logits)
        assert torch.equal(model(ids, language="en").logits, model(ids, languages=torch.tensor([0, 0])).logits)
        by_token = model(ids, languages=torch.tensor([[0, 0, 0], [1, 1, 1]])).logits
        assert torch.allclose(by_token, model(ids, languages=torch.tensor([0, 1])).logits, atol=1e-6)
        assert not torch.allclose(model(ids, language="en").logits, model(ids, language="zh").logits, atol=1e-3)
    with pytest.raises(InputError, match="does not have the language 'de'"):
        model(ids, language="de")
    with pytest.raises(InputError, match="languages are given for 2 tokens"):
        model(ids, languages=torch.tensor([[0, 0], [1, 1]]))


def test_the_placeholder_has_the_language_of_the_first_token() -> None:
    model, ids = with_trilayer(bert(), ("en", "zh")), torch.tensor([[5, 6, 7]])

    def placeholder(*languages: int) -> torch.Tensor:
        with torch.no_grad():
            read = model.model(ids, languages=torch.tensor([languages]), output_hidden_states=True)
        return read.hidden_states[0][0, -1]

    assert torch.equal(placeholder(0, 0, 1), placeholder(0, 0, 0))
    assert not torch.allclose(placeholder(0, 0, 1), placeholder(1, 1, 1))


def test_a_bridge_predicts_from_the_state_of_another_position() -> None:
    model, ids = with_trilayer(bert()), torch.tensor([[5, 6, 7, 8]])
    with torch.no_grad():
        plain = model(ids).logits
        assert torch.allclose(model(ids, bridge=torch.tensor([[0, 3, 2, 1]])).logits, plain[:, [0, 3, 2, 1]], atol=1e-6)


def test_next_sentences_are_scored_by_the_head_that_bert_has() -> None:
    backbone = bert()
    model = with_trilayer(backbone, trilayer=False)
    torch.nn.init.zeros_(model.model.language_embeddings.weight)
    ids, types = torch.tensor([[5, 6, 7, 8]]), torch.tensor([[0, 0, 1, 1]])
    with torch.no_grad():
        expected = backbone(ids, token_type_ids=types).seq_relationship_logits
        found = model(ids, token_type_ids=types, next_sentence_label=torch.tensor([1]))
    assert torch.equal(found.next_sentence_logits, expected)
    assert torch.allclose(found.loss, torch.nn.functional.cross_entropy(expected, torch.tensor([1])))
    with pytest.raises(InputError, match="no head for next sentences"):
        with_trilayer(roberta())(ids, next_sentence_label=torch.tensor([1]))


def test_the_layers_of_an_albert_become_equal_ones_of_their_own() -> None:
    model = with_trilayer(albert())
    first, *others = (layer.state_dict() for layer in (*model.model.lower, *model.model.upper))
    assert len(others) == 3
    assert all(torch.equal(value, other[name]) for other in others for name, value in first.items())
    pointers = {next(layer.parameters()).data_ptr() for layer in (*model.model.lower, *model.model.upper)}
    assert len(pointers) == 4


def test_the_combination_has_each_half_of_one_model_and_the_mean_of_the_rest(backbone: Any) -> None:
    there, back = with_trilayer(backbone), with_trilayer(backbone)
    redraw(there, back)
    both = combine_halves(there, back)
    first, second, found = (dict(model.named_parameters()) for model in (there, back, both))
    counts = {"upper": 0, "lower": 0, "mean": 0}
    for name, value in found.items():
        index = next((int(part) for part in name.split(".") if part.isdigit()), None)
        in_layers = ".encoder.layer." in name or "albert_layer_groups" in name
        if in_layers and not name.startswith("model.trilayer"):
            kind = "lower" if index < 2 else "upper"
            assert torch.equal(value, (second if kind == "lower" else first)[name]), name
        else:
            kind = "mean"
            assert torch.equal(value, (first[name] + second[name]) / 2), name
        counts[kind] += 1
    assert counts["upper"] == counts["lower"] > 0
    assert counts["mean"] > 10
    assert both.head.decoder.weight is both.get_input_embeddings().weight
    assert not any(value is first[name] for name, value in found.items())


def test_models_of_different_shapes_cannot_be_combined() -> None:
    with pytest.raises(InputError, match="have different parameters"):
        combine_halves(with_trilayer(bert()), with_trilayer(roberta()))


def test_the_pattern_of_a_half_matches_its_layers_and_nothing_else() -> None:
    config = BertConfig(**(SIZES | {"num_hidden_layers": 12}), vocab_size=20, max_position_embeddings=8)
    model = with_trilayer(BertForMaskedLM(config))
    for half, wanted in (("lower", range(6)), ("upper", range(6, 12))):
        names = [name for name, _ in model.named_parameters() if re.search(half_pattern(model, half), name)]
        assert {int(name.split(".")[4]) for name in names} == set(wanted)
        assert not any("trilayer" in name for name in names)


def test_models_that_cannot_be_cut_in_two_are_rejected() -> None:
    with pytest.raises(GraftError, match="type 'gpt2'"):
        with_trilayer(pico.gpt2(pico.byte_level()))
    with pytest.raises(GraftError, match="no head for masked tokens"):
        with_trilayer(BertForSequenceClassification(BertConfig(**SIZES, vocab_size=90)))
    with pytest.raises(GraftError, match="one layer"):
        with_trilayer(BertForMaskedLM(BertConfig(**(SIZES | {"num_hidden_layers": 1}), vocab_size=90)))
    with pytest.raises(InputError, match="at least two distinct names"):
        with_trilayer(bert(), ("en", "en"))
    with pytest.raises(InputError, match="`embedding_size=32"):
        with_trilayer(bert(), embedding_size=32)


def test_scoring_treats_it_as_an_encoder() -> None:
    assert architecture_of(with_trilayer(bert())) == "encoder"


def test_a_parser_can_use_it_as_encoder(backbone: Any, tmp_path: Any) -> None:
    model = with_trilayer(backbone)
    parser = BiaffineParser.on_top_of(model, ["nsubj", "root"], arc_size=8, label_size=4).eval()
    parser.save_pretrained(tmp_path)
    inputs = padded(model) | {"word_of_piece": torch.zeros(3, 9, dtype=torch.long)}
    hidden = model.model(inputs["input_ids"], inputs["attention_mask"]).last_hidden_state
    assert torch.equal(parser.encoder(inputs["input_ids"], inputs["attention_mask"]).last_hidden_state, hidden)
    again = BiaffineParser.from_pretrained(tmp_path)
    values = again.state_dict()
    assert all(torch.equal(value, values[name]) for name, value in parser.state_dict().items())


def test_a_saved_parser_loads_in_a_process_that_has_not_seen_a_trilayer(tmp_path: Any) -> None:
    _, tokenizer = pico.pair("bert")
    parser = BiaffineParser.on_top_of(with_trilayer(bert()), ["nsubj", "root"], arc_size=8, label_size=4).eval()
    parser.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    code = """
        import sys
        from safetensors.torch import save_file
        from relexify.evaluation.parsing.training import load_parser
        folder, output = sys.argv[1:]
        save_file(load_parser(folder)[0].state_dict(), output)
    """
    loaded = tmp_path / "loaded.safetensors"
    subprocess.run([sys.executable, "-c", textwrap.dedent(code), tmp_path, loaded], check=True)
    values = load_file(loaded)
    assert values.keys() == parser.state_dict().keys()
    assert all(torch.equal(value, values[name]) for name, value in parser.state_dict().items())


def test_hidden_states_are_those_of_every_layer(backbone: Any) -> None:
    model = with_trilayer(backbone)
    output = model.model(torch.tensor([[5, 6, 7]]), output_hidden_states=True)
    assert len(output.hidden_states) == 6
    assert torch.equal(output.hidden_states[-1], output.last_hidden_state)
    assert [state.shape[1] for state in output.hidden_states] == [4, 4, 4, 3, 3, 3]


def test_an_output_embedding_of_its_own_stays_its_own(tmp_path: Any) -> None:
    config = BertConfig(**SIZES, vocab_size=90, max_position_embeddings=24, pad_token_id=0, tie_word_embeddings=False)
    backbone = drawn(BertForMaskedLM(config).eval())
    model = with_trilayer(backbone, trilayer=False)
    torch.nn.init.zeros_(model.model.language_embeddings.weight)
    model.save_pretrained(tmp_path)
    inputs = padded(model)
    with torch.no_grad():
        for each in (model, load_model(tmp_path)):
            assert torch.equal(each(**inputs).logits, backbone(**inputs).logits)
    assert model.head.decoder.weight is not model.get_input_embeddings().weight


def test_an_xlm_that_is_not_a_masked_language_model_of_one_language_is_rejected() -> None:
    model = xlm()
    for entry in ({"causal": True}, {"asm": True}, {"n_langs": 2}):
        for name, value in entry.items():
            setattr(model.config, name, value)
        with pytest.raises(GraftError, match="a masked language model of one language"):
            with_trilayer(model)
        model = xlm()
    assert architecture_of(model) == "encoder"
    assert architecture_of(with_trilayer(model)) == "encoder"
