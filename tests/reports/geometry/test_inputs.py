"""The text whose hidden states are compared."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from relexify.errors import InputError
from relexify.pretrained.architecture import usable_length
from relexify.reports.geometry.inputs import states_of_text
from relexify.reports.geometry.report import GeometryPlots, plot_geometry
from tests import pico


@pytest.mark.parametrize("family", ["encoder", "decoder"])
def test_states_are_those_of_the_text_after_one_start_token_and_words_may_have_marks(family, tmp_path):
    lines = ["हिन्दी भाषा में लिखी किताब हिन्दी में"] * 20
    (tmp_path / "text.txt").write_text("\n".join(lines), encoding="utf-8")
    if family == "encoder":
        tokenizer = pico.roberta_tokenizer(lines)
        model, after = pico.roberta(tokenizer), [tokenizer.eos_token_id]
    else:
        tokenizer = pico.llama2_layout(lines)
        model, after = pico.llama(tokenizer), []
    found, names = states_of_text(model, tokenizer, str(tmp_path / "text.txt"), name=family)
    assert tokenizer.bos_token_id not in found.ids
    text = found.ids[: usable_length(model) - 1 - len(after)]
    with torch.inference_mode():
        read = model.eval()(torch.tensor([[tokenizer.bos_token_id, *text, *after]]), output_hidden_states=True)
    expected = read.hidden_states[-1][0, 1 : 1 + len(text)].numpy()
    assert np.allclose(found.layers[-1][: len(text)], expected, atol=1e-5)
    if family == "decoder":
        assert set(names.values()) == set(lines[0].split())


def test_a_model_with_nan_is_not_plotted(tmp_path):
    model, tokenizer = pico.pair("gpt2")
    with torch.no_grad():
        model.get_input_embeddings().weight[3, 3] = torch.nan
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    plots = GeometryPlots(tmp_path / "a.svg", tmp_path / "b.svg", None, tmp_path / "c.svg")
    with pytest.raises(InputError, match="has NaN or infinite values"):
        plot_geometry({"model": str(tmp_path / "model")}, plots)
    assert not (tmp_path / "a.svg").exists()
