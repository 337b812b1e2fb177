"""The unigram prior: the mean prediction follows the text, and nothing else changes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, BertModel, CohereConfig, GraniteConfig

from relexify.errors import InputError
from relexify.grafting import add_unigram_prior, graft, sample_paragraphs, unigram_text
from relexify.grafting import unigram as unigram_module
from relexify.methods.fvt import fvt
from relexify.methods.parts.copying import kept
from relexify.mixture import first_of
from relexify.pretrained.parameters.lexical import lexical_axes
from relexify.scoring import bits_per_byte
from relexify.tokens import encoder_of, extend_tokenizer, separator_of, train_tokenizer_like
from tests import pico

CHANGED = {
    "gpt2": "tied embedding",
    "gemma": "tied embedding",
    "t5": "tied embedding",
    "llama untied": "output embedding",
    "bert": "output bias",
    "roberta": "output bias",
    "modernbert": "output bias",
    "bart": "output bias",
}
LINES = pico.sentences(words=pico.foreign_words(), seed=3)
HELD_OUT = "\n".join(pico.sentences(40, words=pico.foreign_words(), seed=9))


def grafted(family, **options):
    model, tokenizer = pico.pair(family)
    target = train_tokenizer_like(tokenizer, lambda: LINES, 350)
    return graft(model, target, fvt(tokenizer, target), **options)


def mean_prediction(model, tokenizer):
    """The mean distribution that a decoder predicts in a text that the prior was not measured on."""
    ids = tokenizer(HELD_OUT.split("\n"), add_special_tokens=False).input_ids
    with torch.no_grad():
        logits = [model(input_ids=torch.tensor([row])).logits[0] for row in ids]
    return torch.cat(logits).softmax(dim=-1).mean(dim=0)


@pytest.mark.parametrize(("layout", "before"), [(pico.xglm_layout, ["</s>"]), (pico.glm_layout, ["[gMASK]", "<sop>"])])
def test_predictions_are_measured_after_the_tokens_that_a_text_begins_with(layout, before):
    tokenizer = layout()
    windows = np.arange(24).reshape(2, 12)
    batch = unigram_text._batch(tokenizer, windows, "decoder")
    read, extra = batch.inputs["input_ids"], len(before) - 1
    assert tokenizer.convert_ids_to_tokens(read[0].tolist())[: len(before)] == before
    assert read[:, len(before) :].tolist() == windows[:, len(before) : -1].tolist()
    assert batch.predicts.sum(dim=1).tolist() == [11 - extra] * 2
    assert batch.labels.tolist() == windows[:, len(before) :].flatten().tolist()


@pytest.mark.parametrize("family", list(CHANGED))
def test_every_family_predicts_the_text_better_and_keeps_its_inner_parameters(family):
    result = grafted(family)
    model, tokenizer = result.model, result.tokenizer
    before = {name: value.clone() for name, value in model.state_dict().items()}
    rows, score = model.get_input_embeddings().weight.clone(), bits_per_byte(model, tokenizer, HELD_OUT).value
    report = add_unigram_prior(model, tokenizer, LINES)
    assert report.changed == CHANGED[family]
    assert report.divergence_after < 0.1 * report.divergence_before
    assert report.bits_after < report.bits_before
    if not model.config.is_encoder_decoder:  # those are scored on single paragraphs, which have no separators
        assert bits_per_byte(model, tokenizer, HELD_OUT).value < score
    changed = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
    assert changed
    assert changed <= set(lexical_axes(model))
    if report.changed != "tied embedding":
        assert torch.equal(model.get_input_embeddings().weight, rows)


@pytest.mark.parametrize(
    "config", [GraniteConfig(**pico.SMALL, logits_scaling=8.0), CohereConfig(**pico.SMALL, logit_scale=0.0625)]
)
def test_models_that_scale_their_logits_get_the_whole_correction(config):
    tokenizer = pico.byte_level(LINES)
    config.update({"vocab_size": len(tokenizer), "tie_word_embeddings": True, "pad_token_id": None})
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        rows = model.get_input_embeddings().weight
        rows += torch.randn(rows.shape[1])  # hidden states need a common direction, as those of trained models have
    report = add_unigram_prior(model, tokenizer, LINES)
    assert report.divergence_after < 0.1 * report.divergence_before


def test_a_correction_that_is_too_large_for_tied_rows_is_made_smaller():
    tokenizer = pico.byte_level(LINES)
    config = CohereConfig(**pico.SMALL, logit_scale=0.0625, initializer_range=0.2, vocab_size=len(tokenizer))
    torch.manual_seed(0)
    report = add_unigram_prior(AutoModelForCausalLM.from_config(config), tokenizer, LINES)
    assert report.changed == "tied embedding"
    assert report.bits_after < report.bits_before - 0.5


def test_the_mean_prediction_is_the_distribution_of_tokens():
    result = grafted("llama untied", pad_to_multiple_of=64)
    stream = np.concatenate(
        [[*row, separator_of(result.tokenizer)] for row in encoder_of(result.tokenizer).encode(LINES)]
    )
    rows = result.report.rows
    unigram = torch.from_numpy((np.bincount(stream, minlength=rows) + 0.1) / (len(stream) + 0.1 * rows))

    def distance():
        return float((mean_prediction(result.model, result.tokenizer) - unigram).abs().sum())

    before = distance()
    add_unigram_prior(result.model, result.tokenizer, LINES)
    assert distance() < 0.25 * before
    unused = mean_prediction(result.model, result.tokenizer)[result.report.tokens :]
    assert unused.sum() < 0.05  # rows that pad the embedding belong to no token


def test_the_correction_is_measured_and_applied_twice(monkeypatch):
    result = grafted("llama untied")
    twice = unigram_module.find_unigram_prior(result.model, result.tokenizer, LINES)
    assert len(twice.corrections) == 2
    monkeypatch.setattr(unigram_module, "_PASSES", 1)
    once = unigram_module.find_unigram_prior(result.model, result.tokenizer, LINES)
    assert twice.report.divergence_after < 0.9 * once.report.divergence_after


def test_special_tokens_that_do_not_occur_keep_their_rows():
    result = grafted("llama untied")
    special = set(result.tokenizer.all_special_ids)
    before = result.model.get_output_embeddings().weight.detach().clone()
    add_unigram_prior(result.model, result.tokenizer, LINES)
    changed = (result.model.get_output_embeddings().weight != before).any(dim=1)
    assert {id for id in special if changed[id]} == {separator_of(result.tokenizer)}
    assert changed[[id for id in range(len(result.tokenizer)) if id not in special]].all()


def test_an_encoder_does_not_expect_separators_which_are_never_masked():
    result = grafted("bert")
    add_unigram_prior(result.model, result.tokenizer, LINES)
    ids = result.tokenizer(HELD_OUT.split("\n")[0], return_tensors="pt").input_ids
    ids[0, 2] = result.tokenizer.mask_token_id
    with torch.no_grad():
        predicted = result.model(input_ids=ids).logits[0, 2].softmax(dim=-1)
    assert predicted[separator_of(result.tokenizer)] < 1 / len(result.tokenizer)


def test_differences_between_contexts_stay_with_an_output_bias():
    result = grafted("bert")
    ids = torch.tensor([result.tokenizer(LINES[0]).input_ids])
    with torch.no_grad():
        before = result.model(input_ids=ids).logits[0]
        add_unigram_prior(result.model, result.tokenizer, LINES)
        after = result.model(input_ids=ids).logits[0]
    assert torch.allclose(after[1:] - after[:1], before[1:] - before[:1], atol=1e-5)


def test_the_same_text_and_seed_give_the_same_parameters(monkeypatch):
    monkeypatch.setattr(unigram_text, "_LINES", 50)
    first, second, other = grafted("gpt2"), grafted("gpt2"), grafted("gpt2")
    assert add_unigram_prior(first.model, first.tokenizer, LINES) == add_unigram_prior(
        second.model, second.tokenizer, iter(LINES)
    )
    assert torch.equal(first.model.lm_head.weight, second.model.lm_head.weight)
    add_unigram_prior(other.model, other.tokenizer, LINES, seed=1)
    assert not torch.equal(first.model.lm_head.weight, other.model.lm_head.weight)


def test_a_sample_is_drawn_from_the_whole_text_and_long_paragraphs_are_cut(monkeypatch):
    _, tokenizer = pico.pair("gpt2")
    monkeypatch.setattr(unigram_text, "_LINES", 100)
    lines = ["a"] * 500 + ["b"] * 500
    text = tokenizer.decode(unigram_text.sample_tokens(tokenizer, lines, seed=0), skip_special_tokens=True)
    assert len(text) == 100
    assert 30 < text.count("b") < 70
    assert text == "a" * text.count("a") + "b" * text.count("b")
    cut = unigram_text.sample_tokens(tokenizer, ["a " * 10_000], seed=0)
    assert len(tokenizer.decode(cut)) == 500
    assert separator_of(tokenizer) not in cut


def test_unseen_tokens_share_the_probability_of_those_seen_once():
    smoothed = unigram_module._smoothed(np.array([6, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0]))
    assert np.allclose(smoothed * 10, [6, 1, 1, *[0.25] * 8])
    assert np.allclose(unigram_module._smoothed(np.array([3, 1, 0])) * 4.5, [3, 1, 0.5])
    assert np.allclose(unigram_module._smoothed(np.array([3, 1])) * 4, [3, 1])


@pytest.mark.parametrize("has_source", [False, True])
def test_a_correction_changes_logits_on_average_by_exactly_itself(has_source):
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(2, 30, 5, generator=generator, dtype=torch.float64) + torch.tensor([2.0, 0, 0, 0, 0])
    states[1, :, 1] += 3

    def predictions(hidden):
        return unigram_module._Predictions(torch.ones(1), hidden.mean(dim=0), hidden.T @ hidden / len(hidden), 0, 0)

    source = predictions(states[1]) if has_source else None
    direction = unigram_module._direction(predictions(states[0]), source)
    assert float((states[0] @ direction).mean()) == pytest.approx(1)
    penalty = torch.eye(5, dtype=torch.float64) * states[0].square().mean()  # the mean eigenvalue of the moments
    moments = sum(each.T @ each / len(each) for each in states[: 1 + has_source])
    ridge = torch.linalg.inv(moments + penalty) @ states[0].mean(dim=0)
    assert torch.allclose(direction / direction.norm(), ridge / ridge.norm())


def test_rows_are_kept_if_the_prior_does_not_help(monkeypatch):
    forwards = unigram_module._direction
    monkeypatch.setattr(unigram_module, "_direction", lambda *found: -forwards(*found))
    result = grafted("gpt2")
    rows = result.model.get_input_embeddings().weight.clone()
    report = add_unigram_prior(result.model, result.tokenizer, LINES)
    assert report.changed == "nothing"
    assert report.bits_after == report.bits_before
    assert torch.equal(result.model.get_input_embeddings().weight, rows)


def test_text_and_a_head_are_needed():
    result = grafted("bert")
    with pytest.raises(InputError, match="the text to count tokens in is empty"):
        add_unigram_prior(result.model, result.tokenizer, [])
    with pytest.raises(InputError, match="no language-modelling head"):
        add_unigram_prior(BertModel(result.model.config), result.tokenizer, LINES)


def test_a_sample_of_paragraphs_gives_the_prior_of_the_whole_text(monkeypatch):
    monkeypatch.setattr(unigram_text, "_LINES", 50)
    monkeypatch.setattr(unigram_text, "_CHARACTERS", 40)
    sample = sample_paragraphs(LINES, seed=1)
    assert len(sample) == 50 < len(LINES)
    assert max(map(len, sample)) <= 40
    assert sample_paragraphs(sample, seed=1) == sample
    assert sample_paragraphs(LINES, seed=2) != sample


@pytest.mark.parametrize("family", ["gpt2", "llama untied", "bert"])
def test_kept_rows_are_not_changed_and_added_tokens_get_their_share(family):
    model, tokenizer = pico.pair(family)
    target = extend_tokenizer(tokenizer, lambda: LINES, pico.sentences, 60).tokenizer
    result = graft(model, target, first_of(kept(tokenizer, target), fvt(tokenizer, target)))
    before = {name: value.clone() for name, value in result.model.state_dict().items()}
    report = add_unigram_prior(result.model, target, LINES, kept=len(tokenizer))
    assert report.changed != "nothing"
    assert report.bits_after < report.bits_before
    for name, value in result.model.state_dict().items():
        assert torch.equal(value[: len(tokenizer)], before[name][: len(tokenizer)]), name
    if family == "gpt2":
        text = [id for line in LINES for id in target(line).input_ids]
        share = sum(id >= len(tokenizer) for id in text) / len(text)
        assert abs(float(mean_prediction(result.model, target)[len(tokenizer) :].sum()) - share) < 0.1


def extended(marked):
    """Return an extended model, its tokenizer, and the number of tokens that it had before.

    If `marked`, all inputs have one component in common, and those of the two languages differ in another, so that
    final hidden states have a common direction and tell the languages apart, as those of a trained model do.
    """
    model, tokenizer = pico.pair("llama untied")
    target = extend_tokenizer(tokenizer, lambda: LINES, pico.sentences, 60).tokenizer
    model = graft(model, target, first_of(kept(tokenizer, target), fvt(tokenizer, target))).model
    if marked:
        counts = [
            np.bincount([id for line in lines for id in target(line).input_ids], minlength=len(target))
            for lines in (LINES, pico.sentences())
        ]
        with torch.no_grad():
            model.get_input_embeddings().weight[:, 0] += 2.0
            model.get_input_embeddings().weight[:, 1] += torch.from_numpy(np.sign(counts[0] - counts[1])) * 2.0
    return model, target, len(tokenizer)


def share_of_added(model, target, first, lines):
    """Return the mean probability of the added tokens in a text."""
    ids = torch.tensor([[id for line in lines for id in target(line).input_ids][:200]])
    with torch.no_grad():
        return float(model(input_ids=ids).logits.softmax(dim=-1)[..., first:].sum(dim=-1).mean())


def test_added_tokens_become_more_probable_mostly_in_their_own_language(monkeypatch):
    monkeypatch.setattr(unigram_module, "_TOLERATED", 0.1)  # some tokens occur in both of these languages
    rises = {}
    for name, source in (("everywhere", None), ("apart", pico.sentences())):
        model, target, first = extended(marked=True)
        texts = HELD_OUT.split("\n"), pico.sentences(40, seed=5)
        before = [share_of_added(model, target, first, lines) for lines in texts]
        report = add_unigram_prior(model, target, LINES, kept=first, source=source)
        assert report.changed == "output embedding"
        after = [share_of_added(model, target, first, lines) for lines in texts]
        rises[name] = [new - old for new, old in zip(after, before, strict=True)]
    assert rises["apart"][0] > 0.5
    assert rises["apart"][1] < 0.4 * rises["everywhere"][1]
    assert report.source_bits_before < report.source_bits_after < 1.1 * report.source_bits_before


def test_nothing_changes_if_hidden_states_do_not_tell_the_languages_apart():
    model, target, first = extended(marked=False)
    rows = model.get_output_embeddings().weight.clone()
    report = add_unigram_prior(model, target, LINES, kept=first, source=pico.sentences())
    assert report.changed == "nothing"
    assert report.source_bits_after == report.source_bits_before
    assert torch.equal(model.get_output_embeddings().weight, rows)


@pytest.mark.parametrize("source", [None, pico.sentences()])
def test_nothing_changes_if_all_hidden_states_are_zero(source):
    model, tokenizer = pico.pair("llama untied")
    with torch.no_grad():
        model.get_input_embeddings().weight.zero_()
    rows = model.get_output_embeddings().weight.clone()
    assert add_unigram_prior(model, tokenizer, LINES, source=source).changed == "nothing"
    assert torch.equal(model.get_output_embeddings().weight, rows)


@pytest.mark.parametrize(("after", "helps"), [(2.0, True), (2.019, True), (2.021, False)])
def test_a_prior_that_costs_the_source_language_more_than_one_percent_is_not_used(after, helps):
    none = torch.zeros(0)
    target, source = (
        [unigram_module._Predictions(none, none, none, 0.0, nats) for nats in ends] for ends in ((9, 5), (2.0, after))
    )
    assert unigram_module._Attempt([], [], target, source).helps == helps
