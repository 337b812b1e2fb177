"""Rows from a file, by the spelling of tokens."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from relexify.errors import EvidenceError, InputError
from relexify.evidence.vectors import WordVectors
from relexify.methods.given_rows import given_rows
from relexify.storage.fingerprint import fingerprint
from relexify.storage.notes import read_notes
from relexify.systems.transfer.options import Transfer
from relexify.systems.transfer.run import run_transfer
from relexify.tokens import vocabulary_of
from tests import pico

SOURCE = pico.byte_level()
TARGET = pico.byte_level(pico.sentences(words=pico.foreign_words(), seed=3))
TOKENS = vocabulary_of(TARGET).tokens


def rows(names, width=pico.WIDTH, seed=0):
    return WordVectors(names, np.random.default_rng(seed).standard_normal((len(names), width)).astype(np.float32))


def test_given_rows_are_the_rows_of_the_model_in_both_embeddings(tmp_path, cache):
    model = pico.llama_untied(SOURCE)
    model.save_pretrained(tmp_path / "model")
    SOURCE.save_pretrained(tmp_path / "model")
    TARGET.save_pretrained(tmp_path / "tokenizer")
    (tmp_path / "target.txt").write_text("\n".join(pico.sentences(100, words=pico.foreign_words())))
    names = list(TOKENS[300:])
    given, output = rows(names), rows(names[::-1], seed=1)
    result = run_transfer(
        Transfer(
            str(tmp_path / "model"),
            tmp_path / "out",
            tmp_path / "target.txt",
            method="given-rows",
            tokenizer=str(tmp_path / "tokenizer"),
            target_vectors=given.save(tmp_path / "rows.safetensors"),
            options={"output_vectors": output.save(tmp_path / "output.safetensors")},
            score=False,
        )
    )
    inputs = read_notes(tmp_path / "out")["provenance"]["inputs"]
    assert inputs["output_vectors"] == fingerprint(tmp_path / "output.safetensors") != inputs["target_vectors"]
    page = (tmp_path / "out" / "report.html").read_text()
    assert f"<td>{tmp_path / 'output.safetensors'}</td><td>{inputs['output_vectors']}</td>" in page
    grafted = result.graft.model
    assert torch.equal(grafted.get_input_embeddings().weight[300:], torch.from_numpy(given.matrix))
    assert torch.equal(grafted.get_output_embeddings().weight[300:], torch.from_numpy(output.matrix[::-1].copy()))
    end = SOURCE.eos_token_id
    assert torch.equal(
        grafted.get_input_embeddings().weight[TARGET.eos_token_id], model.get_input_embeddings().weight[end]
    )


def test_special_tokens_and_shared_tokens_without_a_row_are_copied():
    built = given_rows(SOURCE, TARGET, rows([TOKENS[310], TARGET.eos_token]))
    assert built.precomputed is not None
    assert built.precomputed.ids.tolist() == [310]
    digit = TARGET.convert_tokens_to_ids("7")
    assert built.mixture.sources(digit) == [("7", 1.0)]


def test_rows_of_other_tokens_and_incomplete_output_rows_are_rejected():
    with pytest.raises(EvidenceError, match="name the rows by the tokens"):
        given_rows(SOURCE, TARGET, rows(["neither", "of", "these tokens"]))
    with pytest.raises(InputError, match="no row of the output embedding"):
        given_rows(SOURCE, TARGET, rows(list(TOKENS[300:302])), output=rows([TOKENS[300]]))
