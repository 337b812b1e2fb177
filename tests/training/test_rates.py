"""Learning rates follow from the model and the text; what was given stays."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch

from relexify.errors import InputError
from relexify.storage.notes import read_notes
from relexify.systems.bilingual.model import BilingualModel
from relexify.training.options import Stage, Training
from relexify.training.plan import plan_stages
from relexify.training.rates import (
    AVERAGED_PARAMETERS,
    EMBEDDING_RATE,
    INNER_RATE,
    INNER_WIDTH,
    LEAST_BATCH,
    MOST_EPOCHS,
    MUON_PAYS_FROM,
    OTHER_SHARE,
    PATIENCE,
    SMALLEST_ROWS,
    TOKENS_PER_STEP,
    RateInputs,
    choose_average,
    choose_optimiser,
    derive_rates,
    fill_in_options,
    fit_batch_to_text,
    rate_inputs,
)
from tests import pico
from tests.training.runs import TRAINING

REFERENCE = RateInputs(width=INNER_WIDTH, embedding_rms=0.1, tokens_per_step=TOKENS_PER_STEP)
OWN = Training(steps=10, batch=4, length=16)


@pytest.fixture
def model():
    return pico.pair("llama untied")[0]


def test_the_model_that_rates_were_found_with_has_these_rates():
    rates = derive_rates(REFERENCE)
    assert (rates.inner, rates.embeddings) == pytest.approx((INNER_RATE, 0.1 * EMBEDDING_RATE))
    assert rates.others == OTHER_SHARE * INNER_RATE


@pytest.mark.parametrize(
    ("measures", "optimiser", "rates"),
    [
        (RateInputs(576, 0.083, 32_768), "muon", (4e-3, 1e-2, 5e-3)),
        (RateInputs(576, 0.083, 8_192), "adamw", (1e-3, 3.54e-3, 1e-3)),
        (RateInputs(384, 0.037, 32_768, is_masked=True), "muon", (1.22e-3, 4.44e-3, 1.525e-3)),
    ],
)
def test_the_rates_that_results_were_measured_with_do_not_change(measures, optimiser, rates):
    found = derive_rates(measures, optimiser)
    assert (found.inner, found.embeddings, found.others) == pytest.approx(rates)
    chosen = [choose_optimiser(Training(batch=1, length=16 * measures.width - less), measures.width) for less in (0, 1)]
    assert chosen == ["muon", "adamw"]


def test_rates_grow_with_the_root_of_the_tokens_per_step():
    rates, larger = derive_rates(REFERENCE), derive_rates(replace(REFERENCE, tokens_per_step=4 * TOKENS_PER_STEP))
    assert (larger.inner, larger.embeddings) == pytest.approx((2 * rates.inner, 2 * rates.embeddings))


def test_in_small_steps_the_rate_of_embeddings_falls_faster_than_that_of_inner_matrices():
    rates, smaller = derive_rates(REFERENCE), derive_rates(replace(REFERENCE, tokens_per_step=TOKENS_PER_STEP // 16))
    assert (smaller.inner, smaller.embeddings) == pytest.approx((rates.inner / 4, rates.embeddings / 8))


def test_the_rate_of_inner_matrices_follows_the_width_and_that_of_embeddings_their_size():
    rates = derive_rates(REFERENCE)
    wide, large = (
        derive_rates(replace(REFERENCE, width=4 * INNER_WIDTH)),
        derive_rates(replace(REFERENCE, embedding_rms=0.3)),
    )
    assert (wide.inner, wide.embeddings) == pytest.approx((rates.inner / 2, rates.embeddings))
    assert (large.inner, large.embeddings) == pytest.approx((rates.inner, 3 * rates.embeddings))


def test_random_rows_are_trained_as_fast_as_those_of_a_trained_model():
    trained = replace(REFERENCE, embedding_rms=SMALLEST_ROWS / INNER_WIDTH**0.5)
    assert derive_rates(replace(REFERENCE, embedding_rms=0.02)) == derive_rates(trained)
    assert derive_rates(replace(REFERENCE, embedding_rms=1.0)).embeddings > derive_rates(trained).embeddings


def test_encoders_are_trained_with_a_quarter_of_the_inner_rate_and_smaller_random_rows():
    rates, masked = derive_rates(REFERENCE), derive_rates(replace(REFERENCE, is_masked=True))
    assert (masked.inner, masked.others) == pytest.approx((rates.inner / 4, rates.others / 4))
    assert masked.embeddings == rates.embeddings
    small = replace(REFERENCE, embedding_rms=0.02)
    assert derive_rates(replace(small, is_masked=True)).embeddings < derive_rates(small).embeddings
    families = {"bert": True, "gpt2": False, "t5": False}
    models = {name: pico.pair(name)[0] for name in families}
    assert {name: rate_inputs(model, OWN).is_masked for name, model in models.items()} == families
    assert rate_inputs(BilingualModel.join(models["bert"], copy.deepcopy(models["bert"])), OWN).is_masked


@pytest.mark.parametrize(
    ("options", "beta1"),
    [
        ({"optimiser": "muon"}, 0.8),
        ({"optimiser": "adamw"}, 0.8),
        ({"optimiser": "lookahead"}, None),
        ({"lora_rank": 2}, None),
        ({"plan": "direct"}, None),
    ],
)
def test_the_first_moment_of_adam_is_shorter_in_the_own_plan(model, options, beta1):
    assert fill_in_options(replace(OWN, **options), model).beta1 == beta1
    assert fill_in_options(replace(OWN, beta1=0.7, **options), model).beta1 == 0.7


@pytest.mark.parametrize(
    ("options", "average"),
    [
        ({"steps": 250}, 0.9),
        ({"steps": 1_000}, 0.975),
        ({"steps": 1_000_000}, 0.999975),
        ({"steps": 50}, 0.5),
        ({"steps": 49}, 0.0),
        ({"steps": 250, "average": 0.5}, 0.5),
        ({"steps": 250, "average": 0.0}, 0.0),
        ({"steps": 250, "plan": "direct"}, 0.0),
        ({"steps": 250, "plan": "direct", "average": 0.5}, 0.5),
        ({"steps": 250, "lora_rank": 2}, 0.0),
        ({"steps": 250, "optimiser": "lookahead"}, 0.0),
        ({"steps": 250, "optimiser_state": "8-bit"}, 0.0),
        ({"steps": 250, "inner_precision": "bfloat16"}, 0.0),
    ],
)
def test_the_own_plan_averages_the_weights_over_a_share_of_the_steps(model, options, average):
    assert fill_in_options(replace(OWN, **options), model).average == pytest.approx(average, rel=1e-9)


def test_large_models_are_not_averaged_unless_requested():
    assert choose_average(replace(OWN, steps=250), AVERAGED_PARAMETERS) == 0.9
    assert choose_average(replace(OWN, steps=250), AVERAGED_PARAMETERS + 1) == 0
    assert choose_average(replace(OWN, steps=250, average=0.5), AVERAGED_PARAMETERS + 1) == 0.5


def test_all_lexical_rows_are_measured(model):
    with torch.no_grad():
        model.model.embed_tokens.weight.fill_(0.3)
        model.lm_head.weight.fill_(-0.4)
    measures = rate_inputs(model, OWN)
    assert measures.embedding_rms == pytest.approx((0.3**2 / 2 + 0.4**2 / 2) ** 0.5)
    assert (measures.width, measures.tokens_per_step) == (model.config.hidden_size, 64)


def test_an_output_bias_has_no_row_and_is_not_measured():
    model = pico.pair("bert")[0]
    with torch.no_grad():
        model.get_input_embeddings().weight.fill_(0.3)
        model.cls.predictions.bias.fill_(5.0)
    assert rate_inputs(model, OWN).embedding_rms == pytest.approx(0.3)


def test_a_rate_that_was_given_stays(model):
    derived = derive_rates(rate_inputs(model, OWN), "adamw")
    settled = fill_in_options(replace(OWN, learning_rate=1e-5), model)
    assert (settled.learning_rate, settled.embedding_learning_rate) == (1e-5, derived.embeddings)
    settled = fill_in_options(replace(OWN, embedding_learning_rate=1e-5), model)
    assert (settled.learning_rate, settled.embedding_learning_rate) == (derived.inner, 1e-5)


@pytest.mark.parametrize(("share", "optimiser"), [(0.99, "adamw"), (1.0, "muon")])
def test_muon_is_used_from_the_step_size_on_at_which_it_costs_little(model, share, optimiser):
    batch = round(share * 100 * MUON_PAYS_FROM * model.config.hidden_size / 100)
    settled = fill_in_options(replace(OWN, batch=batch, length=1), model)
    derived = derive_rates(rate_inputs(model, settled), optimiser)
    assert settled.optimiser == optimiser
    assert (settled.learning_rate, settled.embedding_learning_rate) == (derived.inner, derived.embeddings)
    assert fill_in_options(replace(OWN, batch=batch, length=1, optimiser="muon"), model).optimiser == "muon"


@pytest.mark.parametrize("plan", ["direct", "embeddings-first", "embeddings-only"])
def test_plans_of_papers_keep_their_optimiser_and_rate(model, plan):
    settled = fill_in_options(replace(OWN, plan=plan), model)
    assert all((stage.learning_rate, stage.optimiser) == (5e-4, "adamw") for stage in plan_stages(settled))


def test_own_stages_are_trained_by_adamw_unless_they_say_otherwise(model):
    stages = (Stage("one", 3), Stage("two", 4, optimiser="muon"), Stage("three", 5, learning_rate=1e-5))
    one, two, three = plan_stages(fill_in_options(replace(OWN, steps=12, stages=stages), model))
    assert (one.optimiser, one.learning_rate, one.embedding_learning_rate) == ("adamw", 5e-4, None)
    assert (three.optimiser, three.learning_rate) == ("adamw", 1e-5)
    derived = derive_rates(rate_inputs(model, OWN))
    assert (two.learning_rate, two.embedding_learning_rate) == (derived.inner, derived.embeddings)


LARGE = Training(steps=100, batch=64)


@pytest.mark.parametrize(
    ("times", "batch"), [(MOST_EPOCHS, 64), (1.01 * MOST_EPOCHS, 32), (4 * MOST_EPOCHS, 16), (100.0, LEAST_BATCH)]
)
def test_steps_have_fewer_sequences_if_the_text_would_be_seen_too_often(times, batch):
    assert fit_batch_to_text(LARGE, round(100 * 64 / times), 1).batch == batch


def test_as_many_sequences_as_requested_if_the_plan_or_the_options_say_so():
    assert fit_batch_to_text(replace(LARGE, plan="direct"), 100, 1).batch == 64
    assert fit_batch_to_text(replace(LARGE, stages=(Stage("one", 100),)), 100, 1).batch == 64
    assert fit_batch_to_text(replace(LARGE, most_epochs=64.0), 100, 1).batch == 64
    assert fit_batch_to_text(replace(LARGE, plan="direct", most_epochs=32.0), 100, 1).batch == 32
    assert fit_batch_to_text(LARGE, None, 1).batch == 64


@pytest.mark.parametrize(("given", "settled"), [(None, None), (64, None), (8, None), (4, 4), (1, 1)])
def test_neither_processes_nor_parts_of_a_batch_change_its_size(given, settled):
    for processes in (1, 2, 8):
        training = fit_batch_to_text(replace(LARGE, micro_batch=given), 100, processes)
        assert (training.batch, training.micro_batch) == (LEAST_BATCH, settled)


def test_a_step_is_never_made_smaller_than_the_smallest_one():
    assert fit_batch_to_text(replace(LARGE, batch=36), 100, 1).batch == 9
    assert fit_batch_to_text(replace(LARGE, batch=5), 100, 1).batch == 5


def test_more_processes_than_sequences_are_rejected():
    with pytest.raises(InputError, match="steps of 8 sequences, which 16 processes cannot share"):
        fit_batch_to_text(LARGE, 100, 16)
    assert fit_batch_to_text(LARGE, 10_000, 16).batch == 64


def test_a_limit_that_nothing_can_keep_is_rejected():
    with pytest.raises(InputError, match="`most_epochs` is for a model that is trained on the text of one language"):
        fit_batch_to_text(replace(LARGE, most_epochs=2.0), None, 1)


def test_how_much_of_a_large_text_is_seen_is_a_share(caplog):
    with caplog.at_level("INFO"):
        fit_batch_to_text(LARGE, 1000 * LARGE.steps * LARGE.batch, 1)
    assert "0.1% of the text is seen" in caplog.text


def test_the_best_model_is_kept_where_text_repeats_in_the_smallest_steps(caplog):
    with caplog.at_level("INFO"):
        often = fit_batch_to_text(LARGE, 100, 1)
    assert "25 steps, in which the text is seen 2 times, should do better" in caplog.text
    assert (often.patience, often.selects_best) == (PATIENCE, True)
    seldom = fit_batch_to_text(LARGE, 100 * LEAST_BATCH, 1)
    assert (seldom.patience, seldom.selects_best) == (None, False)
    assert fit_batch_to_text(replace(LARGE, patience=9), 100, 1).patience == 9
    assert not fit_batch_to_text(replace(LARGE, keep_best=False), 100, 1).selects_best
    papers = fit_batch_to_text(replace(LARGE, plan="direct"), 100, 1)
    assert (papers.patience, papers.selects_best) == (None, False)


def test_a_training_on_little_text_takes_small_steps_and_notes_them(run_of):
    training = replace(TRAINING, plan="relexify", learning_rate=None, batch=64, keep_best=False, save_every=None)
    result = run_of().train(training)
    noted = read_notes(result.output)["training"]
    assert noted["batch"] == LEAST_BATCH
    assert noted["tokens_seen"] == result.tokens == training.steps * LEAST_BATCH * training.length


def test_the_rates_are_logged_and_noted_and_the_same_rates_by_hand_are_the_same_run(run_of, caplog):
    run, training = run_of(), replace(TRAINING, plan="relexify", learning_rate=None, keep_best=False)
    with caplog.at_level("INFO"):
        output = run.train(training).output
    (line,) = [record.getMessage() for record in caplog.records if record.msg.startswith("learning rates:")]
    assert len(line) < 110
    noted = read_notes(output)["training"]
    assert f"{noted['learning_rate']:.2e} for inner matrices" in line
    assert f"{noted['embedding_learning_rate']:.2e} for embeddings" in line
    rates = {name: noted[name] for name in ("learning_rate", "embedding_learning_rate")}
    with caplog.at_level("INFO"):
        run.train(replace(training, **rates))
    assert "up to date" in caplog.text
