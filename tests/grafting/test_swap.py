"""A model that was trained on a task in one language is tested with the lexicon of another."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForSequenceClassification

import relexify as rx
from relexify.errors import GraftError, InputError
from relexify.evaluation.data.columns import TaggedSentence
from relexify.evaluation.data.examples import Example
from relexify.evaluation.data.files import TaskData, TaskFiles
from relexify.evaluation.evaluate import evaluate_task
from relexify.evaluation.finetuning.run import fine_tune
from relexify.evaluation.options import Evaluation, FineTuning
from relexify.evaluation.results import TaskResult
from relexify.grafting.swap import load_lexicon, swap_lexicon
from relexify.pretrained.loading import load_tokenizer
from relexify.systems.bilingual.folder import BilingualBundle
from relexify.systems.bilingual.model import BilingualModel
from tests import pico

LINES = pico.sentences(60)
STILL = 1e-12
"""A rate at which no parameter moves: then the embeddings of one order are those of the other, and all scores equal."""
QUICK = FineTuning(epochs=1, batch=8, length=24, learning_rate=STILL, precision="float32")


def tune(model: Path, task: str, train: Any, test: Any, folder: Path, through: Path | None = None) -> TaskResult:
    options = QUICK if task == "nli" else replace(QUICK, length=48)
    return fine_tune(model, task, TaskData(train, test), options, seeds=(0,), folder=folder, through=through)


PAIRS = [Example(line, line[::-1], "entailment" if index % 2 else "neutral") for index, line in enumerate(LINES)]


@pytest.fixture(scope="module", params=["bert", "roberta"])
def shuffled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """English, and "another language" that is English with its token ids in another order."""
    root = tmp_path_factory.mktemp(request.param)
    model, tokenizer = pico.pair(request.param)
    model.save_pretrained(root / "en")
    tokenizer.save_pretrained(root / "en")
    other, order = permuted(tokenizer)
    moved = copy.deepcopy(model)
    with torch.no_grad():
        moved.get_input_embeddings().weight.copy_(model.get_input_embeddings().weight[order])
    moved.save_pretrained(root / "xx")
    other.save_pretrained(root / "xx")
    model.save_pretrained(root / "lost")  # the rows of one order under the ids of the other
    other.save_pretrained(root / "lost")
    both = BilingualModel.join(model, moved, ("en", "xx"))
    BilingualBundle(both, {"en": tokenizer, "xx": other}).save(root / "both")
    return root


def permuted(tokenizer: Any) -> tuple[Any, torch.Tensor]:
    """A tokenizer with the same tokens under other ids, special ones unchanged; and the source row of each."""
    import json

    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    state = json.loads(tokenizer.backend_tokenizer.to_str())
    vocabulary = state["model"]["vocab"]
    fixed = len({token["id"] for token in state["added_tokens"]})
    last = len(vocabulary) - 1
    moved = {name: id if id < fixed else fixed + last - id for name, id in vocabulary.items()}
    state["model"]["vocab"] = moved
    order = torch.empty(len(vocabulary), dtype=torch.long)
    for name, id in moved.items():
        order[id] = vocabulary[name]
    named = {f"{role}_token": getattr(tokenizer, f"{role}_token") for role in ("pad", "unk", "cls", "sep", "mask")}
    if tokenizer.bos_token:
        named |= {"bos_token": tokenizer.bos_token, "eos_token": tokenizer.eos_token}
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(json.dumps(state)), **named), order


def test_the_same_words_under_other_ids_give_the_same_scores(shuffled, tmp_path):
    at_home = tune(shuffled / "en", "nli", PAIRS, PAIRS, tmp_path / "home")
    abroad = tune(shuffled / "en", "nli", PAIRS, PAIRS, tmp_path / "abroad", through=shuffled / "xx")
    assert at_home.confusion == abroad.confusion
    assert at_home.mean == abroad.mean


def test_words_are_tagged_through_another_lexicon(shuffled, tmp_path):
    data = [
        TaggedSentence(tuple(line.split()), tuple("W" if w.isalpha() else "X" for w in line.split())) for line in LINES
    ]
    at_home = tune(shuffled / "en", "pos", data, data, tmp_path / "home")
    abroad = tune(shuffled / "en", "pos", data, data, tmp_path / "abroad", through=shuffled / "xx")
    assert at_home.confusion == abroad.confusion
    lost = tune(shuffled / "en", "pos", data, data, tmp_path / "lost", through=shuffled / "lost")
    assert lost.confusion != at_home.confusion, "nothing was swapped"


def test_a_bilingual_folder_is_tested_through_its_other_language_and_resumes_from_finished_seeds(shuffled, tmp_path):
    for name in ("train", "test"):
        (tmp_path / f"{name}.tsv").write_text("".join(f"{e.first}\t{e.second}\t{e.label}\n" for e in PAIRS))
    files = TaskFiles(tmp_path / "train.tsv", tmp_path / "test.tsv")
    options = Evaluation("nli", language="en", through="xx", epochs=1, batch=8, learning_rate=1e-3)
    result = evaluate_task(shuffled / "both", files, options, folder=tmp_path / "nli")
    kept = (tmp_path / "nli" / "seed-0.json").stat().st_mtime_ns
    again = evaluate_task(shuffled / "both", files, options, folder=tmp_path / "nli")
    assert again == result
    assert (tmp_path / "nli" / "seed-0.json").stat().st_mtime_ns == kept, "it was trained again"
    plain = Evaluation("nli", through=str(shuffled / "xx"), epochs=1, batch=8, learning_rate=1e-3)
    assert evaluate_task(shuffled / "en", files, plain, folder=tmp_path / "plain") == result


def test_a_bilingual_folder_requires_a_language(shuffled, tmp_path):
    files = TaskFiles("train.tsv", "test.tsv")
    with pytest.raises(InputError, match="is a bilingual model: choose a language"):
        evaluate_task(shuffled / "both", files, Evaluation("nli"), folder=tmp_path)
    with pytest.raises(InputError, match="does not have the language 'de'"):
        evaluate_task(shuffled / "both", files, Evaluation("nli", language="en", through="de"), folder=tmp_path)
    with pytest.raises(InputError, match="not a bilingual model"):
        evaluate_task(shuffled / "en", files, Evaluation("nli", language="en"), folder=tmp_path)


def test_only_the_lexicon_is_swapped_and_the_fine_tuned_model_stays(shuffled):
    classifier = AutoModelForSequenceClassification.from_pretrained(shuffled / "en", num_labels=2).eval()
    before = copy.deepcopy(classifier.state_dict())
    swapped = swap_lexicon(classifier, load_lexicon(shuffled / "xx"))
    changed = {name for name, each in swapped.state_dict().items() if not torch.equal(each, before[name])}
    assert {name.partition(".")[2] for name in changed} == {"embeddings.word_embeddings.weight"}
    assert all(torch.equal(before[name], each) for name, each in classifier.state_dict().items())
    with torch.no_grad():
        for line in LINES[:5]:
            ids = [load_tokenizer(shuffled / name)(line, return_tensors="pt").input_ids for name in ("en", "xx")]
            assert not torch.equal(*ids)
            assert torch.equal(classifier(ids[0]).logits, swapped(ids[1]).logits)


def test_a_lexicon_of_another_encoder_is_rejected(shuffled, tmp_path):
    model, tokenizer = pico.pair("bert")
    config = copy.deepcopy(model.config)
    config.intermediate_size = 48
    other = type(model)(config)
    other.save_pretrained(tmp_path / "other")
    tokenizer.save_pretrained(tmp_path / "other")
    classifier = AutoModelForSequenceClassification.from_pretrained(shuffled / "en", num_labels=2)
    with pytest.raises(GraftError, match=r"do not share an encoder: .* in the trained model"):
        swap_lexicon(classifier, load_lexicon(tmp_path / "other"))


def test_a_lexicon_may_have_another_size(tmp_path):
    model, tokenizer = pico.pair("bert")
    target = pico.wordpiece(pico.sentences(400, words=pico.foreign_words()), size=170)
    rx.graft(model, target, rx.methods.fvt(tokenizer, target)).save(tmp_path / "xx")
    model.save_pretrained(tmp_path / "en")
    tokenizer.save_pretrained(tmp_path / "en")
    foreign = [
        Example(line, line, "entailment" if i % 2 else "neutral")
        for i, line in enumerate(pico.sentences(9, words=pico.foreign_words()))
    ]
    result = tune(tmp_path / "en", "nli", PAIRS, foreign, tmp_path / "nli", through=tmp_path / "xx")
    assert result.mean[0].examples == 9
