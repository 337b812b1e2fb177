"""A pruned model gives the same logits for the tokens that stay."""

from __future__ import annotations

import pytest
import torch
from transformers import GenerationConfig

from relexify.errors import InputError, VocabularyError
from relexify.grafting import check, prune
from relexify.pretrained.loading import load_model, load_tokenizer
from relexify.storage.json import read_json
from tests import pico

USED = pico.sentences(60, words="the old teacher reads near green water".split(), seed=4)  # noqa: SIM905


@pytest.mark.parametrize("family", ["gpt2", "llama untied", "bert", "t5"])
def test_the_logits_of_all_remaining_tokens_are_the_same(family, tmp_path):
    folder = pico.saved(family, tmp_path / "model")
    (tmp_path / "text.txt").write_text("\n".join(USED))
    result = prune(folder, tmp_path / "out", tmp_path / "text.txt")
    before, after = load_model(folder), load_model(tmp_path / "out")
    source, pruned = load_tokenizer(folder), load_tokenizer(tmp_path / "out")
    kept = torch.tensor([source.convert_tokens_to_ids(token) for token in result.graft.mixture.target_tokens])
    assert len(kept) + result.removed == len(source)
    assert result.parameters_after < result.parameters_before
    ids, new_ids = (tokenizer(USED[0], return_tensors="pt").input_ids for tokenizer in (source, pruned))
    assert torch.equal(kept[new_ids], ids)
    labels = [{}, {}]
    if family == "t5":
        labels = [{"labels": ids}, {"labels": new_ids}]
    with torch.no_grad():
        expected = before(input_ids=ids, **labels[0]).logits[..., kept]
        found = after(input_ids=new_ids, **labels[1]).logits
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
    assert not any(each.problems for each in check(tmp_path / "out"))
    assert "removed" in (tmp_path / "out" / "README.md").read_text()
    provenance = read_json(tmp_path / "out" / "relexify.json")["provenance"]
    assert set(provenance["inputs"]) == set(provenance["command"]) == {"model", "corpus"}
    report = (tmp_path / "out" / "report.html").read_text()
    assert "pruned" in report
    assert "good start" not in report


def test_words_that_generation_avoids_are_kept_with_their_new_ids(tmp_path):
    folder, tokenizer = pico.saved("gpt2", tmp_path / "model"), pico.byte_level()
    (tmp_path / "text.txt").write_text("\n".join(USED))
    left = prune(folder, tmp_path / "first", tmp_path / "text.txt").graft.tokenizer.get_vocab()
    used = tokenizer(USED[0].split()[0]).input_ids
    unused = [next(id for token, id in tokenizer.get_vocab().items() if token not in left)]
    settings = GenerationConfig.from_pretrained(folder)
    settings.bad_words_ids = [used, unused]
    settings.sequence_bias = [[used, -1.0]]
    settings.save_pretrained(folder)
    prune(folder, tmp_path / "out", tmp_path / "text.txt")
    found, pruned = GenerationConfig.from_pretrained(tmp_path / "out"), load_tokenizer(tmp_path / "out")
    expected = pruned(USED[0].split()[0]).input_ids
    assert found.bad_words_ids == [expected]
    assert found.sequence_bias == [[expected, -1.0]]


def test_a_missing_text_is_rejected_before_the_model_is_loaded(tmp_path):
    with pytest.raises(InputError, match="missing"):
        prune(tmp_path / "no-model", tmp_path / "out", tmp_path / "missing")


def test_a_tokenizer_with_more_tokens_than_the_model_has_rows_is_called_so(tmp_path):
    model, tokenizer = pico.pair("gpt2")
    tokenizer.add_tokens(["added"])
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    (tmp_path / "text.txt").write_text("\n".join(pico.sentences(20)))
    with pytest.raises(VocabularyError, match="has 401 tokens, but the model has only 400 embeddings"):
        prune(tmp_path / "model", tmp_path / "out", tmp_path / "text.txt")
