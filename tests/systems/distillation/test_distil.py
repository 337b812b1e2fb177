"""Token distillation: which positions are compared, what is trained, and that hidden states come closer."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast
from transformers.convert_slow_tokenizer import bytes_to_unicode

from relexify.errors import InputError
from relexify.evidence.evidence import Evidence
from relexify.grafting import graft
from relexify.methods.fvt import fvt
from relexify.methods.inputs import Inputs
from relexify.methods.parts.copying import shared
from relexify.pretrained.architecture import inner_encoder
from relexify.pretrained.loading import load_model, load_tokenizer
from relexify.systems.distillation import distil
from relexify.systems.distillation.distil import distilled, pair_lines
from relexify.systems.distillation.options import Distillation
from relexify.systems.transfer.options import Transfer
from relexify.systems.transfer.run import run_transfer
from relexify.text import Corpus
from relexify.tokens import train_tokenizer_like
from tests import pico

LINES = pico.sentences(40, words=pico.foreign_words(), seed=3)
SHORT = {"distillation_steps": 20, "distillation_batch": 6, "distillation_length": 24, "distillation_rate": 0.5}


def transferred(family, tmp_path):
    pico.saved(family, tmp_path / "model")
    (tmp_path / "target.txt").write_text("\n".join(LINES))
    options = Transfer(
        str(tmp_path / "model"),
        tmp_path / "out",
        tmp_path / "target.txt",
        method="token-distillation",
        vocab_size=330,
        options=SHORT,
        score=False,
    )
    return run_transfer(options)


def difference(model, source, grafted, target):
    """Mean squared difference of the hidden states of all lines at common ends of tokens."""
    found = []
    for ids, others, positions in pair_lines(LINES, source, target, length=24, source_length=60):
        with torch.no_grad():
            before = inner_encoder(model)(torch.tensor([ids])).last_hidden_state[0]
            after = inner_encoder(grafted)(torch.tensor([others])).last_hidden_state[0]
        one, other = (list(side) for side in zip(*positions, strict=True))
        found.append(((before[one] - after[other]) ** 2).mean().item())
    return float(np.mean(found))


@pytest.mark.parametrize("family", ["gpt2", "bert"])
def test_hidden_states_come_closer_to_those_of_the_source_pieces(family, tmp_path, cache):
    result = transferred(family, tmp_path)
    model, source = load_model(tmp_path / "model").eval(), load_tokenizer(tmp_path / "model")
    mean = graft(model, result.graft.tokenizer, fvt(source, result.graft.tokenizer)).model.eval()
    before = difference(model, source, mean, result.graft.tokenizer)
    after = difference(model, source, result.graft.model.eval(), result.graft.tokenizer)
    assert after < 0.9 * before
    # Shared tokens and the body are as they were.
    rows = result.graft.model.get_input_embeddings().weight
    copied = shared(source, result.graft.tokenizer)
    ids = np.flatnonzero(copied.known)
    assert torch.equal(rows[ids], model.get_input_embeddings().weight[copied.weights[ids].indices])


def test_positions_are_those_at_which_a_token_ends_in_both_segmentations():
    source = pico.byte_level()
    target = train_tokenizer_like(source, lambda: LINES, 330)
    for ids, others, positions in pair_lines(LINES[:5], source, target, length=12, source_length=40):
        assert len(others) <= 12
        assert len(ids) <= 40
        for one, other in positions:
            assert source.decode(ids[: one + 1]) == target.decode(others[: other + 1])
        assert positions[-1] == (len(ids) - 1, len(others) - 1)


def test_a_token_that_ends_inside_a_character_is_not_compared():
    # к is D0 BA and а is D0 B0: with the merge BA D0, no token of "ка" ends where к does.
    state = json.loads(pico.byte_level(["-"], size=257).backend_tokenizer.to_str())
    last_and_first = "".join(bytes_to_unicode()[byte] for byte in b"\xba\xd0")
    state["model"]["vocab"][last_and_first] = len(state["model"]["vocab"])
    state["model"]["merges"] = [list(last_and_first)]
    source = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(json.dumps(state)))
    assert len(source("ка").input_ids) == 3
    target = pico.unigram(["к а ак ка"] * 20)
    (pair,) = pair_lines(["к ка к"], source, target, length=40)
    ends = [(source.decode(pair.source[: one + 1]), target.decode(pair.target[: two + 1])) for one, two in pair.matches]
    assert [one.strip() for one, _ in ends] == [two.strip() for _, two in ends]
    assert len(ends) >= 3


def distilled_rows(lines, **options):
    """The tokens whose rows are trained on lines, with their rows."""
    model, source = pico.pair("gpt2")
    inputs = Inputs(
        source,
        train_tokenizer_like(source, lambda: LINES, 330),
        Evidence(Corpus.from_lines(lines), Corpus.from_lines(LINES)),
        lambda: model.get_input_embeddings().weight.detach().numpy(),
        read_model=lambda: model,
    )
    return distilled(inputs, Distillation(**{**SHORT, **options})).precomputed


def test_only_tokens_of_lines_that_a_step_reads_are_trained():
    lines = ["Tênki šomüšo rašokira", "loба tênki баra"]
    once = {"distillation_steps": 1, "distillation_batch": 1}
    alone = [set(distilled_rows([line], **once).ids) for line in lines]
    assert set(distilled_rows(lines, **once).ids) in alone


def test_rows_do_not_depend_on_how_many_lines_are_computed_together(monkeypatch):
    together = distilled_rows(LINES, distillation_batch=40)
    monkeypatch.setattr(distil, "LINES_TOGETHER", 40)
    apart = distilled_rows(LINES, distillation_batch=40)
    assert together.ids.tolist() == apart.ids.tolist()
    start = distilled_rows(LINES, distillation_batch=40, distillation_rate=1e-9)
    moved = np.abs(apart.vectors - start.vectors).max()
    assert np.abs(together.vectors - apart.vectors).max() < 0.01 * moved


def test_little_is_padded_on_a_cpu(monkeypatch):
    lines = [" ".join(LINES[:count]) for count in (1, 9) * 4]
    computed = []
    hidden = distil._hidden

    def counted(encoder, sequences, replaced):
        computed.append([len(ids) for ids in sequences])
        return hidden(encoder, sequences, replaced)

    monkeypatch.setattr(distil, "_hidden", counted)
    distilled_rows(lines, distillation_steps=1, distillation_batch=8, distillation_length=200)
    assert sorted(map(len, computed)) == [4, 4, 4, 4]
    assert all(min(lengths) == max(lengths) for lengths in computed)


def test_no_inner_parameter_takes_part_in_the_gradient(monkeypatch):
    replacing = []
    call = distil.functional_call

    def recorded(encoder, replaced, **options):
        if torch.is_grad_enabled():
            assert {*replaced} == {name for name, _ in encoder.named_parameters()}
            assert all(parameter.requires_grad for parameter in encoder.parameters())  # as they were
            replacing.append([name for name, tensor in replaced.items() if tensor.requires_grad])
        return call(encoder, replaced, **options)

    monkeypatch.setattr(distil, "functional_call", recorded)
    distilled_rows(LINES[:1], distillation_steps=1, distillation_batch=1)
    assert replacing == [["wte.weight"]]


def test_lines_are_no_longer_than_the_model_can_read():
    # Words of the source language, so that the target has more tokens for them.
    line = " ".join([LINES[0].split()[0], *pico.sentences(40)])
    assert np.isfinite(distilled_rows([line], distillation_steps=1, distillation_length=500).vectors).all()


def test_options_that_are_not_possible_are_rejected():
    for wrong in ({"distillation_steps": 0}, {"distillation_rate": 0.0}, {"distillation_length": 1}):
        with pytest.raises(InputError):
            Distillation(**wrong)
