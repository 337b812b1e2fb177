"""Layers for tasks on a model with a TRILayer: over the model's own states, and trained with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy
from transformers import (
    AutoModelForMultipleChoice,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)

from relexify.systems.trelm.model.building import with_trilayer
from relexify.systems.trelm.model.task_heads import (
    TriLayerForMultipleChoice,
    TriLayerForQuestionAnswering,
    TriLayerForSequenceClassification,
    TriLayerForTokenClassification,
)
from tests import pico


@pytest.fixture(scope="module", params=["bert", "roberta"])
def folder(request: Any, tmp_path_factory: Any) -> Path:
    where: Path = tmp_path_factory.mktemp("trilayer") / request.param
    with_trilayer(pico.pair(request.param)[0], ("en", "xx")).save_pretrained(where)
    return where


def tokens() -> torch.Tensor:
    return torch.randint(5, 60, (3, 9), generator=torch.Generator().manual_seed(0))


def test_a_text_is_classified_by_the_first_state_of_the_trained_encoder(folder):
    model = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=3).eval()
    assert isinstance(model, TriLayerForSequenceClassification)
    with torch.no_grad():
        states = model.model(tokens()).last_hidden_state
        expected = model.classifier(torch.tanh(model.pooler(states[:, 0])))
        found = model(tokens(), labels=torch.tensor([0, 1, 2]))
    torch.testing.assert_close(found.logits, expected)
    torch.testing.assert_close(found.loss, cross_entropy(expected, torch.tensor([0, 1, 2])))


def test_regression_minimises_the_squared_error(folder):
    model = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=1, problem_type="regression").eval()
    wanted = torch.tensor([0.5, 2.0, -1.0])
    found = model(tokens(), labels=wanted)
    torch.testing.assert_close(found.loss, ((found.logits[:, 0] - wanted) ** 2).mean())


def test_every_token_is_classified_and_those_without_labels_do_not_count(folder):
    model = AutoModelForTokenClassification.from_pretrained(folder, num_labels=4).eval()
    assert isinstance(model, TriLayerForTokenClassification)
    labels = torch.full((3, 9), -100)
    labels[:, 2] = torch.tensor([0, 3, 1])
    found = model(tokens(), labels=labels)
    assert found.logits.shape == (3, 9, 4)
    torch.testing.assert_close(found.loss, cross_entropy(found.logits[:, 2], labels[:, 2]))


def test_of_several_texts_the_one_with_the_highest_score_is_chosen(folder):
    model = AutoModelForMultipleChoice.from_pretrained(folder).eval()
    assert isinstance(model, TriLayerForMultipleChoice)
    texts = torch.stack([tokens(), tokens().flip(1)], dim=1)
    with torch.no_grad():
        states = [model.model(texts[:, option]).last_hidden_state[:, 0] for option in (0, 1)]
        expected = torch.cat([model.classifier(torch.tanh(model.pooler(each))) for each in states], dim=1)
        found = model(texts, attention_mask=torch.ones_like(texts), labels=torch.tensor([0, 1, 1]))
    torch.testing.assert_close(found.logits, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.loss, cross_entropy(expected, torch.tensor([0, 1, 1])), rtol=1e-4, atol=1e-5)


def test_an_answer_has_a_first_and_a_last_token(folder):
    model = AutoModelForQuestionAnswering.from_pretrained(folder).eval()
    assert isinstance(model, TriLayerForQuestionAnswering)
    start, end = torch.tensor([1, 2, 3]), torch.tensor([4, 4, 8])
    with torch.no_grad():
        scores = model.classifier(model.model(tokens()).last_hidden_state)
        found = model(tokens(), start_positions=start, end_positions=end)
    torch.testing.assert_close(found.start_logits, scores[..., 0])
    torch.testing.assert_close(found.end_logits, scores[..., 1])
    expected = (cross_entropy(scores[..., 0], start) + cross_entropy(scores[..., 1], end)) / 2
    torch.testing.assert_close(found.loss, expected)


def test_padding_changes_no_logit(folder):
    model = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=2).eval()
    padding = model.config.backbone.pad_token_id
    padded = torch.cat([tokens(), torch.full((3, 4), padding)], dim=1)
    mask = torch.cat([torch.ones(3, 9), torch.zeros(3, 4)], dim=1).long()
    with torch.no_grad():
        torch.testing.assert_close(
            model(padded, attention_mask=mask).logits, model(tokens()).logits, rtol=1e-4, atol=1e-5
        )


def test_the_whole_encoder_is_trained_and_loaded_from_its_folder(folder, tmp_path):
    model = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=2)
    model(tokens(), labels=torch.tensor([0, 1, 1])).loss.backward()
    silent = [name for name, each in model.named_parameters() if each.grad is None or not each.grad.any()]
    assert not [name for name in silent if "layer" in name and "key.bias" not in name], silent
    model.save_pretrained(tmp_path / "saved")
    again = AutoModelForSequenceClassification.from_pretrained(tmp_path / "saved").eval()
    with torch.no_grad():
        assert torch.equal(again(tokens()).logits, model.eval()(tokens()).logits)
