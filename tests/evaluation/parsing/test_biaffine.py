"""The biaffine parser as a model: scores, masks, saving, for a tiny model of every family."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoModel

from relexify.evaluation.parsing.biaffine import Biaffine, BiaffineConfig, BiaffineParser
from relexify.pretrained.architecture import IGNORED
from relexify.pretrained.parameters.lexical import lexical_axes
from tests import pico

families = pytest.mark.parametrize("family", list(pico.FAMILIES))
RELATIONS = ["nsubj", "obj", "root"]


def parser_of(family: str = "bert", **options) -> BiaffineParser:
    model, _ = pico.pair(family)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        parser = BiaffineParser.on_top_of(model, RELATIONS, arc_size=24, label_size=12, **options).eval()
        for form in (parser.arc, parser.label):  # zero before training
            torch.nn.init.normal_(form.weight, std=0.3)
    return parser


def inputs(*rows: list[tuple[int, int]], pieces: int, words: int) -> dict[str, torch.Tensor]:
    """Rows of (id, word), padded to a number of pieces and words."""
    batch = {
        "input_ids": torch.zeros(len(rows), pieces, dtype=torch.long),
        "attention_mask": torch.zeros(len(rows), pieces, dtype=torch.long),
        "word_of_piece": torch.full((len(rows), pieces), -1),
        "word_mask": torch.zeros(len(rows), words, dtype=torch.bool),
    }
    for number, row in enumerate(rows):
        for index, (id, word) in enumerate(row):
            batch["input_ids"][number, index] = id
            batch["attention_mask"][number, index] = 1
            batch["word_of_piece"][number, index] = word
        batch["word_mask"][number, : max(word for _, word in row) + 1] = True
    return batch


SHORT = [(2, -1), (20, 0), (21, 1), (3, -1)]
LONG = [(2, -1), (30, 0), (31, 0), (32, 1), (33, 2), (34, 2), (35, 2), (36, 3), (3, -1)]


@torch.no_grad()
def scores(parser: BiaffineParser, batch: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    output = parser(**batch)
    return output.arc_scores, parser.label_scores(output, torch.zeros_like(batch["word_mask"], dtype=torch.long))


@families
def test_scores_do_not_depend_on_what_a_sentence_is_batched_with(family):
    parser = parser_of(family)
    alone = scores(parser, inputs(SHORT, pieces=4, words=2))
    among = scores(parser, inputs(LONG, SHORT, LONG, pieces=14, words=7))
    assert alone[0].shape == (1, 2, 3)
    torch.testing.assert_close(among[0][1, :2, :3], alone[0][0], atol=2e-5, rtol=1e-5)
    torch.testing.assert_close(among[1][1, :2], alone[1][0], atol=2e-5, rtol=1e-5)
    assert torch.isneginf(among[0][1, :2, 3:]).all()


@families
def test_saving_and_loading_keeps_every_bit(family, tmp_path):
    parser = parser_of(family)
    batch = inputs(SHORT, LONG, pieces=9, words=4)
    parser.save_pretrained(tmp_path)
    again, loaded = BiaffineParser.from_pretrained(tmp_path, output_loading_info=True)
    assert not loaded["missing_keys"]
    assert not loaded["unexpected_keys"]
    by_name = AutoModel.from_pretrained(tmp_path)
    assert isinstance(by_name, BiaffineParser)
    assert by_name.config.relations == RELATIONS
    for other in (again.eval(), by_name.eval()):
        for mine, theirs in zip(scores(parser, batch), scores(other, batch), strict=True):
            assert torch.equal(mine, theirs)
    for name, parameter in parser.named_parameters():
        assert torch.equal(parameter, dict(by_name.named_parameters())[name]), name


@families
def test_the_encoder_is_a_copy_of_the_models(family):
    model, _ = pico.pair(family)
    ids = torch.tensor([[5, 6, 7]])
    parser = BiaffineParser.on_top_of(model, RELATIONS).eval()
    inner = model.base_model.get_encoder() if model.config.is_encoder_decoder else model.base_model
    with torch.no_grad():
        expected = inner(input_ids=ids).last_hidden_state
        torch.testing.assert_close(parser.encoder(input_ids=ids).last_hidden_state, expected)
        parser.get_input_embeddings().weight.zero_()
    assert model.get_input_embeddings().weight.abs().sum() > 0


def test_arc_and_label_scores_are_the_equations():
    dependents, heads = torch.randn(1, 2, 3), torch.randn(1, 4, 3)
    for with_bias in (False, True):
        form = Biaffine(3, 2, bias_of_heads=with_bias)
        torch.nn.init.normal_(form.weight)
        found = form(dependents, heads)
        for d in range(2):
            for h in range(4):
                left = torch.cat([dependents[0, d], torch.ones(1)])
                right = torch.cat([heads[0, h], torch.ones(1)]) if with_bias else heads[0, h]
                expected = torch.stack([left @ form.weight[o] @ right for o in range(2)])
                torch.testing.assert_close(found[0, d, h], expected)
        torch.testing.assert_close(form.between(dependents, heads[:, 1:3])[0, 1], found[0, 1, 2])


def test_a_word_is_the_mean_or_the_first_of_its_pieces():
    hidden = torch.randn(1, 4, pico.WIDTH)
    words = torch.tensor([[-1, 0, 0, 2]])
    mean = parser_of()._words(hidden, words, 3)
    torch.testing.assert_close(mean[0, 0], hidden[0, 1:3].mean(0))
    torch.testing.assert_close(mean[0, 2], hidden[0, 3])
    parser = parser_of(pooling="first")
    torch.testing.assert_close(parser._words(hidden, words, 3)[0, 0], hidden[0, 1])
    assert torch.equal(parser._words(hidden, words, 3)[0, 1], parser.without_pieces)


def test_the_loss_is_the_mean_cross_entropy_of_heads_and_of_labels_on_gold_arcs():
    parser = parser_of()
    batch = inputs(SHORT, LONG, pieces=9, words=4)
    heads = torch.tensor([[2, 0, IGNORED, IGNORED], [2, 0, 2, IGNORED]])
    relations = torch.tensor([[0, 2, IGNORED, IGNORED], [1, 2, 1, IGNORED]])
    with torch.no_grad():
        output = parser(**batch, heads=heads, relations=relations)
        labels = parser.label_scores(output, heads.clamp(min=0))
    arcs, names, count = 0.0, 0.0, 0
    for row, index in [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)]:
        arcs -= float(output.arc_scores[row, index].log_softmax(-1)[heads[row, index]])
        names -= float(labels[row, index].log_softmax(-1)[relations[row, index]])
        count += 1
    assert float(output.loss) == pytest.approx((arcs + names) / count, rel=1e-5)


def test_before_training_perceptrons_are_orthogonal_all_scores_are_zero_and_no_word_is_its_own_head():
    parser = BiaffineParser.on_top_of(pico.pair("bert")[0], RELATIONS, arc_size=24, label_size=12).eval()
    for perceptron in (parser.arc_head, parser.arc_dependent, parser.label_head, parser.label_dependent):
        linear, rectifier, _ = perceptron
        torch.testing.assert_close(linear.weight @ linear.weight.T, torch.eye(len(linear.weight)), atol=1e-5, rtol=0)
        assert not linear.bias.any()
        assert rectifier.negative_slope == 0.1  # Dozat & Manning
    arcs, labels = scores(parser, inputs(SHORT, pieces=4, words=2))
    expected = torch.tensor([[0.0, -torch.inf, 0.0], [0.0, 0.0, -torch.inf]])  # ROOT is the first column
    assert torch.equal(arcs[0], expected)
    assert not labels.any()


def test_a_batch_in_which_nothing_counts_has_no_loss_and_no_gradient():
    parser = parser_of()
    batch = inputs(SHORT, pieces=4, words=2)
    nothing = torch.full((1, 2), IGNORED)
    loss = parser(**batch, heads=nothing, relations=nothing).loss
    loss.backward()
    assert float(loss.detach()) == 0.0
    assert all(p.grad is None or p.grad.isfinite().all() for p in parser.parameters())


def test_gradients_reach_every_parameter():
    parser = parser_of().train()
    batch = inputs(SHORT, [(2, -1), (9, 1), (8, 2)], pieces=4, words=3)  # the second sentence has a word without pieces
    heads = torch.tensor([[2, 0, IGNORED], [2, 0, 2]])
    parser(**batch, heads=heads, relations=heads.clamp(max=1)).loss.backward()
    for name, parameter in parser.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
    for vector in (parser.root, parser.without_pieces):
        assert vector.grad.abs().sum() > 0


def test_the_vocabulary_can_be_resized():
    parser = parser_of()
    assert list(lexical_axes(parser)) == ["encoder.embeddings.word_embeddings.weight"]
    parser.resize_token_embeddings(77, mean_resizing=False)
    assert parser.get_input_embeddings().weight.shape[0] == parser.config.encoder.vocab_size == 77


def test_a_config_survives_its_json(tmp_path):
    config = parser_of().config
    config.save_pretrained(tmp_path)
    again = BiaffineConfig.from_pretrained(tmp_path)
    assert again.encoder.to_dict() == config.encoder.to_dict()
    assert (again.relations, again.arc_size, again.pooling) == (RELATIONS, 24, "mean")
