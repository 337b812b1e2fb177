"""Parameters that a stage does not train stay bit-identical."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from relexify.errors import InputError
from relexify.training.engine.freezing import trained_names
from relexify.training.options import Stage
from tests import pico
from tests.training.runs import TRAINING, Moment, tensors

HEAVY = replace(TRAINING, steps=6, save_every=None, evaluate_every=6, weight_decay=0.5)
"""Weight decay that would show within a step."""
EMBEDDINGS = {
    "gpt2": {"transformer.wte.weight"},
    "llama untied": {"model.embed_tokens.weight", "lm_head.weight"},
    "bert": {"bert.embeddings.word_embeddings.weight", "cls.predictions.bias"},
}
"""As saved: a tied head is not there a second time."""


def changed(folder: Path, source: Path) -> set[str]:
    after, before = tensors(folder), tensors(source)
    assert after.keys() == before.keys()
    return {name for name in after if not torch.equal(after[name], before[name])}


@pytest.mark.parametrize("family", EMBEDDINGS)
def test_embeddings_only_changes_exactly_the_parameters_with_one_entry_per_token(run_of, family):
    run = run_of(family)
    run.train(replace(HEAVY, plan="embeddings-only"))
    assert changed(run.output(), run.source) == EMBEDDINGS[family]


@pytest.mark.parametrize("family", EMBEDDINGS)
def test_inner_changes_everything_except_parameters_with_one_entry_per_token(run_of, family):
    run = run_of(family)
    run.train(replace(HEAVY, stages=(Stage("inner", 6, "inner", 1e-2),)))
    assert changed(run.output(), run.source) == set(tensors(run.source)) - EMBEDDINGS[family]


def test_embeddings_first_leaves_the_inner_parameters_alone_until_its_second_stage(run_of):
    run = run_of()
    training = replace(HEAVY, steps=20, plan="embeddings-first")
    run.train_until_killed(Moment("stage", 2), training)
    assert changed(run.work() / "1-embeddings" / "result", run.source) == EMBEDDINGS["gpt2"]
    run.train(training)
    assert changed(run.output(), run.source) == set(tensors(run.source))


def test_a_regular_expression_trains_the_parameters_whose_names_it_finds(run_of):
    run = run_of()
    run.train(replace(HEAVY, stages=(Stage("norms", 3, r"ln_\d", 1e-2), Stage("positions", 3, "wpe", 1e-2))))
    names = {name for name in tensors(run.source) if "ln_1" in name or "ln_2" in name or "wpe" in name}
    assert len(names) == 9
    assert changed(run.output(), run.source) == names


def test_an_expression_that_fits_no_parameter_is_rejected(run_of):
    run = run_of()
    with pytest.raises(InputError, match=r"no parameter's name contains 'attention_\.'.*such as"):
        run.train(replace(HEAVY, stages=(Stage("nothing", 3, "attention_."),)))
    assert not run.output().exists()


@pytest.mark.parametrize("family", ["gpt2", "llama tied", "llama untied", "gemma", "bert", "roberta", "modernbert"])
def test_embeddings_and_inner_are_all_parameters_and_never_the_same(family):
    model, tokenizer = pico.pair(family)
    embeddings, inner = trained_names(model, "embeddings"), trained_names(model, "inner")
    parameters = dict(model.named_parameters(remove_duplicate=False))
    assert embeddings | inner == set(parameters)
    assert not embeddings & inner
    assert all(len(tokenizer) in parameters[name].shape for name in embeddings)
    assert not any(len(tokenizer) in parameters[name].shape for name in inner)
