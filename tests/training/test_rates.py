"""Learning rates follow from the model and the text; what was given stays."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from relexify.storage.work import read_notes
from relexify.training.plan import Stage, Training, plan_stages
from relexify.training.rates import (
    EMBEDDING_RATE,
    INNER_RATE,
    INNER_WIDTH,
    MUON_PAYS_FROM,
    OTHER_SHARE,
    PATIENCE,
    REPEATED_FROM,
    SMALLEST_ROWS,
    TOKENS_PER_STEP,
    Measures,
    derive_rates,
    measure,
    settle,
)
from tests import pico
from tests.training.runs import TRAINING

REFERENCE = Measures(width=INNER_WIDTH, embedding_rms=0.1, tokens_per_step=TOKENS_PER_STEP, epochs=1.0)
OWN = Training(steps=10, batch=4, length=16)


@pytest.fixture
def model():
    return pico.pair("llama untied")[0]


def test_the_model_that_rates_were_found_with_has_these_rates():
    rates = derive_rates(REFERENCE)
    assert (rates.inner, rates.embeddings) == pytest.approx((INNER_RATE, 0.1 * EMBEDDING_RATE))
    assert rates.others == OTHER_SHARE * INNER_RATE


def test_rates_grow_with_the_root_of_the_tokens_per_step():
    rates, larger = derive_rates(REFERENCE), derive_rates(replace(REFERENCE, tokens_per_step=4 * TOKENS_PER_STEP))
    assert (larger.inner, larger.embeddings) == pytest.approx((2 * rates.inner, 2 * rates.embeddings))


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


@pytest.mark.parametrize(
    ("options", "beta1"), [({"optimiser": "muon"}, 0.8), ({"optimiser": "adamw"}, None), ({"plan": "direct"}, None)]
)
def test_the_first_moment_of_adam_is_shorter_beside_muon(model, options, beta1):
    assert settle(replace(OWN, **options), model, 1.0).beta1 == beta1
    assert settle(replace(OWN, beta1=0.7, **options), model, 1.0).beta1 == 0.7


def test_all_lexical_rows_are_measured(model):
    with torch.no_grad():
        model.model.embed_tokens.weight.fill_(0.3)
        model.lm_head.weight.fill_(-0.4)
    measures = measure(model, OWN, 2.5)
    assert measures.embedding_rms == pytest.approx((0.3**2 / 2 + 0.4**2 / 2) ** 0.5)
    assert (measures.width, measures.tokens_per_step, measures.epochs) == (model.config.hidden_size, 64, 2.5)


def test_a_rate_that_was_given_stays(model):
    derived = derive_rates(measure(model, OWN, 1.0), "adamw")
    settled = settle(replace(OWN, learning_rate=1e-5), model, 1.0)
    assert (settled.learning_rate, settled.embedding_learning_rate) == (1e-5, derived.embeddings)
    settled = settle(replace(OWN, embedding_learning_rate=1e-5), model, 1.0)
    assert (settled.learning_rate, settled.embedding_learning_rate) == (derived.inner, 1e-5)


@pytest.mark.parametrize(("share", "optimiser"), [(0.99, "adamw"), (1.0, "muon")])
def test_muon_is_used_from_the_step_size_on_at_which_it_costs_little(model, share, optimiser):
    batch = round(share * 100 * MUON_PAYS_FROM * model.config.hidden_size / 100)
    settled = settle(replace(OWN, batch=batch, length=1), model, 1.0)
    derived = derive_rates(measure(model, settled, 1.0), optimiser)
    assert settled.optimiser == optimiser
    assert (settled.learning_rate, settled.embedding_learning_rate) == (derived.inner, derived.embeddings)
    assert settle(replace(OWN, batch=batch, length=1, optimiser="muon"), model, 1.0).optimiser == "muon"


@pytest.mark.parametrize("plan", ["direct", "embeddings-first", "embeddings-only"])
def test_plans_of_papers_keep_their_optimiser_and_rate(model, plan):
    settled = settle(replace(OWN, plan=plan), model, 100.0)
    assert all((stage.learning_rate, stage.optimiser) == (5e-4, "adamw") for stage in plan_stages(settled))
    assert (settled.patience, settled.selects_best) == (None, False)


def test_own_stages_are_trained_by_adamw_unless_they_say_otherwise(model):
    stages = (Stage("one", 3), Stage("two", 4, optimiser="muon"), Stage("three", 5, learning_rate=1e-5))
    one, two, three = plan_stages(settle(replace(OWN, steps=12, stages=stages), model, 1.0))
    assert (one.optimiser, one.learning_rate, one.embedding_learning_rate) == ("adamw", 5e-4, None)
    assert (three.optimiser, three.learning_rate) == ("adamw", 1e-5)
    derived = derive_rates(measure(model, OWN, 1.0))
    assert (two.learning_rate, two.embedding_learning_rate) == (derived.inner, derived.embeddings)


def test_the_best_model_is_kept_where_text_repeats(model):
    often, seldom = settle(OWN, model, 1.01 * REPEATED_FROM), settle(OWN, model, REPEATED_FROM)
    assert (often.patience, often.selects_best) == (PATIENCE, True)
    assert (seldom.patience, seldom.selects_best) == (None, False)
    assert settle(replace(OWN, patience=9), model, 100.0).patience == 9
    assert not settle(replace(OWN, keep_best=False), model, 100.0).selects_best


def test_the_rates_are_logged_and_noted_and_the_same_rates_by_hand_are_the_same_run(run_of, caplog):
    run, training = run_of(), replace(TRAINING, plan="relexify", learning_rate=None, keep_best=False)
    with caplog.at_level("INFO"):
        output = run.train(training).output
    (line,) = [record.getMessage() for record in caplog.records if record.msg.startswith("learning rates:")]
    noted = read_notes(output)["training"]
    assert f"{noted['learning_rate']:.2e} for inner matrices" in line
    assert f"{noted['embedding_learning_rate']:.2e} for embeddings" in line
    rates = {name: noted[name] for name in ("learning_rate", "embedding_learning_rate")}
    with caplog.at_level("INFO"):
        run.train(replace(training, **rates))
    assert "up to date" in caplog.text
