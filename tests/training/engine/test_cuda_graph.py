"""Steps replayed as a CUDA graph are the steps launched one by one; sequences without padding need no look at masks."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import masking_utils
from transformers.utils import import_utils

from relexify.pretrained.architecture import IGNORED
from relexify.systems.compression.compress import compressed
from relexify.systems.compression.options import Compression
from relexify.training.engine.cuda_graph import WARM_CALLS, CapturedPass
from relexify.training.loss import forward as loss_module
from relexify.training.loss.forward import loss_forward, whole_sequences
from tests import pico

on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need a CUDA device")


@pytest.mark.parametrize("family", ["gpt2", "llama tied", "bert"])
def test_logits_do_not_change_where_positions_and_masks_are_not_looked_at(family: str):
    model = pico.pair(family)[0].eval()
    tokens = torch.arange(24).reshape(2, 12) % model.config.vocab_size
    with torch.no_grad():
        expected = model(input_ids=tokens).logits
        with whole_sequences():
            assert torch.equal(model(input_ids=tokens).logits, expected)


def test_transformers_has_its_functions_back_even_after_an_error():
    before = masking_utils.find_packed_sequence_indices, import_utils.is_cuda_stream_capturing
    with whole_sequences():
        assert masking_utils.find_packed_sequence_indices is not before[0]
    with pytest.raises(ZeroDivisionError), whole_sequences():
        _ = 1 / 0
    assert (masking_utils.find_packed_sequence_indices, import_utils.is_cuda_stream_capturing) == before


def test_transformers_is_changed_only_while_the_model_is_called():
    model = pico.pair("llama tied")[0]
    tokens = torch.arange(24).reshape(2, 12) % model.config.vocab_size
    own = masking_utils.find_packed_sequence_indices
    seen = []
    model.get_input_embeddings().register_forward_hook(
        lambda module, inputs, output: seen.append(masking_utils.find_packed_sequence_indices)
    )
    with loss_forward(model):
        seen.clear()
        assert masking_utils.find_packed_sequence_indices is own
        model(input_ids=tokens, labels=tokens)
        assert masking_utils.find_packed_sequence_indices is own
    assert len(seen) == 1
    assert seen[0] is not own


def test_a_version_of_transformers_without_such_a_function_is_reported_once(monkeypatch, caplog):
    monkeypatch.delattr(masking_utils, "find_packed_sequence_indices")
    loss_module._replaced_functions.cache_clear()
    for _ in range(2):
        with whole_sequences():
            assert not hasattr(masking_utils, "find_packed_sequence_indices")
    loss_module._replaced_functions.cache_clear()
    assert caplog.text.count("has no transformers.masking_utils.find_packed_sequence_indices") == 1


class Small(torch.nn.Module):
    """A model with a layer that gets no gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.used(rows).square().mean()


def trained(*, captured: bool, parts: int, steps: int = WARM_CALLS + 4) -> tuple[list[float], list[torch.Tensor]]:
    torch.manual_seed(0)
    model = Small().cuda()
    parameters = list(model.parameters())
    optimiser = torch.optim.SGD(parameters, lr=0.1)

    def run(arrays: Any) -> torch.Tensor:
        loss = model(arrays["rows"])
        loss.backward()
        return loss.detach()

    one_pass = CapturedPass(run, parameters, accumulates=parts > 1) if captured else run
    generator, losses = torch.Generator().manual_seed(1), []
    for _ in range(steps):
        for _ in range(parts):
            losses.append(float(one_pass({"rows": torch.randn(4, 8, generator=generator).cuda()})))
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
    return losses, [parameter.detach().cpu() for parameter in parameters]


@on_gpu
@pytest.mark.parametrize("parts", [1, 3])
def test_replayed_steps_equal_launched_ones(parts: int):
    losses, parameters = trained(captured=True, parts=parts)
    expected, others = trained(captured=False, parts=parts)
    assert losses == pytest.approx(expected, rel=1e-5)
    for mine, other in zip(parameters, others, strict=True):
        torch.testing.assert_close(mine, other)


@on_gpu
def test_a_pass_that_cannot_be_recorded_is_launched_all_the_same(caplog: pytest.LogCaptureFixture):
    weight = torch.ones(4, device="cuda", requires_grad=True)

    def run(arrays: Any) -> torch.Tensor:
        loss = (weight * arrays["rows"]).sum()
        if float(loss) > -1:  # waits for the GPU, which a recording cannot
            loss.backward()
        return loss.detach()

    one_pass = CapturedPass(run, [weight], accumulates=False)
    for _ in range(WARM_CALLS + 2):
        weight.grad = None
        assert float(one_pass({"rows": torch.ones(4, device="cuda")})) == 4
        assert weight.grad is not None
    assert "cannot be recorded" in caplog.text


@on_gpu
def test_arrays_of_another_shape_are_not_forced_into_the_recording():
    weight = torch.ones(4, device="cuda", requires_grad=True)

    def run(arrays: Any) -> torch.Tensor:
        loss = (weight * arrays["rows"]).sum()
        loss.backward()
        return loss.detach()

    one_pass = CapturedPass(run, [weight], accumulates=False)
    for rows in (*[2] * (WARM_CALLS + 2), 3, 2):
        weight.grad = None
        assert float(one_pass({"rows": torch.ones(rows, 4, device="cuda")})) == 4 * rows
        assert weight.grad.tolist() == [rows] * 4


@on_gpu
@pytest.mark.parametrize(("family", "label_share"), [("llama tied", 1.0), ("bert", 0.2)])
def test_steps_of_a_compressed_model_are_recorded_and_give_its_loss(family: str, label_share: float):
    model = compressed(pico.pair(family)[0], Compression(k=2))[0].cuda().eval()
    draw = torch.Generator().manual_seed(0)
    tokens = torch.randint(5, model.config.vocab_size, (2, 64), generator=draw).cuda()
    labels = tokens.masked_fill(torch.rand(2, 64, generator=draw).cuda() > 0.15, IGNORED)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]

    def run(arrays: Any) -> torch.Tensor:
        loss = model(**arrays)
        loss.backward()
        return loss.detach()

    with loss_forward(model, label_share=label_share):
        one_pass = CapturedPass(run, parameters, accumulates=False)
        losses = [float(one_pass({"input_ids": tokens, "labels": labels})) for _ in range(WARM_CALLS + 3)]
        assert one_pass.recording is not None
    assert losses == pytest.approx([losses[0]] * len(losses), rel=1e-5)
