"""A compressed encoder is fine-tuned, kept, and fine-tuned further on another task, as for GLUE in the paper."""

from __future__ import annotations

import torch

from relexify.evaluation.data.files import TaskFiles
from relexify.evaluation.evaluate import evaluate_task
from relexify.evaluation.options import Evaluation
from relexify.pretrained.loading import load_model
from relexify.systems.compression.folder import compress_folder
from relexify.systems.compression.options import Compression
from tests import pico


def test_a_kept_encoder_of_a_compressed_model_is_compressed_and_starts_the_next_task(tmp_path):
    pico.saved("roberta", tmp_path / "roberta")
    compress_folder(tmp_path / "roberta", tmp_path / "small", Compression(k=3, codes="digits", init="random"))
    for name, labels in (("mnli", ("entailment", "neutral", "contradiction")), ("rte", ("entailment", "neutral"))):
        lines = [f"the old river\tthe door\t{labels[index % len(labels)]}\n" for index in range(12)]
        (tmp_path / f"{name}.tsv").write_text("".join(lines))
    files = {name: TaskFiles(tmp_path / f"{name}.tsv", tmp_path / f"{name}.tsv") for name in ("mnli", "rte")}
    options = Evaluation("nli", epochs=1, batch=4, length=16, learning_rate=1e-3, keep_encoders=True)
    (encoder,) = evaluate_task(tmp_path / "small", files["mnli"], options, folder=tmp_path / "first").encoders
    before, after = load_model(tmp_path / "small"), load_model(encoder)
    assert type(after) is type(before)
    codes = [model.get_input_embeddings().codes for model in (before, after)]
    assert torch.equal(*codes)
    tables = [next(model.get_input_embeddings().parameters()) for model in (before, after)]
    assert not torch.equal(*tables), "the tables of the embedding were fine-tuned"
    result = evaluate_task(encoder, files["rte"], options, folder=tmp_path / "second")
    assert result.mean[0].examples == 12
