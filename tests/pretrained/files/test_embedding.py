"""The input embedding that is read from the files of a model is that of the model."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

from relexify.pretrained.files.embedding import read_embedding
from relexify.pretrained.loading import load_model
from tests import pico


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("family", pico.FAMILIES)
def test_the_embedding_in_the_files_is_that_of_the_loaded_model(family, dtype, tmp_path):
    model, _ = pico.pair(family)
    model.to(dtype).save_pretrained(tmp_path)
    expected = load_model(tmp_path).get_input_embeddings().weight.detach().float().numpy()
    assert np.array_equal(read_embedding(tmp_path), expected)


def test_a_tied_embedding_is_read_without_torch(tmp_path):
    folder = pico.saved("gpt2", tmp_path / "model")
    code = (
        "import sys; from pathlib import Path; from relexify.pretrained.files.embedding import read_embedding\n"
        "print(read_embedding(Path(sys.argv[1])).dtype, 'torch' in sys.modules)"
    )
    command = [sys.executable, "-c", code, str(folder)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "float32 False\n"
