"""The Trainer of tasks."""

from __future__ import annotations

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification, BertForTokenClassification, TrainerCallback

from relexify.evaluation.finetuning.inputs import stack_rows
from relexify.evaluation.options import FineTuning
from relexify.evaluation.training import EpochTrainer, epoch_arguments


class Gradients(TrainerCallback):
    """Keeps the gradient of every step."""

    def __init__(self, model):
        self.model, self.found = model, []

    def on_pre_optimizer_step(self, args, state, control, **rest):
        self.found.append(torch.cat([each.grad.flatten() for each in self.model.parameters() if each.grad is not None]))


def first_gradients(model_class, micro_batch, folder):
    """Return the gradients of two steps, the second with fewer rows; the rate is too low to change parameters."""
    torch.manual_seed(0)
    model = model_class(
        BertConfig(
            vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
            num_labels=3, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        )
    )  # fmt: skip
    draw, rows = torch.Generator().manual_seed(1), []
    for number in range(13):
        length = int(torch.randint(4, 9, (1,), generator=draw))
        ids = torch.randint(5, 50, (length,), generator=draw).tolist()
        labels = [-100, *[number % 3] * (length - 1)] if model_class is BertForTokenClassification else number % 3
        rows.append({"input_ids": ids, "attention_mask": [1] * length, "labels": labels})
    options = FineTuning(epochs=1, batch=8, micro_batch=micro_batch, clip=1e9, learning_rate=1e-12)
    arguments = epoch_arguments(options, folder, seed=0, steps=2, is_scored=False, micro_batch=micro_batch)
    gradients = Gradients(model)
    trainer = EpochTrainer(
        score=None, model=model, args=arguments, train_dataset=rows, data_collator=lambda part: stack_rows(part, 0),
        callbacks=[gradients],
    )  # fmt: skip
    trainer.train()
    return gradients.found


@pytest.mark.parametrize("model_class", [BertForTokenClassification, BertForSequenceClassification])
def test_parts_of_a_batch_give_the_gradient_of_the_whole_batch(model_class, tmp_path):
    whole = first_gradients(model_class, None, tmp_path / "whole")
    parts = first_gradients(model_class, 2, tmp_path / "parts")
    assert len(whole) == len(parts) == 2
    for ours, expected in zip(parts, whole, strict=True):
        assert torch.allclose(ours, expected, rtol=1e-4, atol=1e-6)
