"""The files of a task, its options, and evaluation of parsers with several seeds."""

from __future__ import annotations

import sys

import pytest

from relexify.errors import InputError, MissingExtra
from relexify.evaluation.data.files import TaskFiles, read_task
from relexify.evaluation.evaluate import check_model, evaluate_task
from relexify.evaluation.options import Evaluation
from tests import pico

TREE = "1\tthe\t_\tDET\t_\t_\t2\tdet\t_\t_\n2\tdoor\t_\tNOUN\t_\t_\t0\troot\t_\t_\n\n"


@pytest.fixture
def words(tmp_path):
    file = tmp_path / "words.tsv"
    file.write_text("".join(f"w{index}\tO\n\n" for index in range(10)))
    return str(file)


def test_fewer_examples_are_spread_over_the_whole_training_file(words):
    data = read_task("pos", TaskFiles(words, words), examples=4)
    assert [sentence.words[0] for sentence in data.train] == ["w0", "w2", "w5", "w7"]
    assert len(data.test) == 10
    assert data.dev is None
    assert len(read_task("pos", TaskFiles(words, words), examples=99).train) == 10


def test_test_examples_in_the_training_data_are_counted_whatever_their_labels(tmp_path):
    (tmp_path / "train.tsv").write_text("a door\topen it\tentailment\na door\tclose it\tneutral\n")
    (tmp_path / "test.tsv").write_text("a door\topen it\tneutral\na door\tpaint it\tneutral\n")
    assert read_task("nli", TaskFiles(tmp_path / "train.tsv", tmp_path / "test.tsv")).repeated_tests == 1
    (tmp_path / "tags.tsv").write_text("a\tDET\ndoor\tNOUN\n\nit\tPRON\n\n")
    (tmp_path / "tags.test.tsv").write_text("a\tDET\ndoor\tVERB\n\na\tDET\n\n")
    assert read_task("pos", TaskFiles(tmp_path / "tags.tsv", tmp_path / "tags.test.tsv")).repeated_tests == 1


def test_tags_are_read_from_treebanks_too(tmp_path):
    (tmp_path / "a.conllu").write_text(TREE)
    data = read_task("pos", TaskFiles(tmp_path / "a.conllu", tmp_path / "a.conllu"))
    assert data.train[0].tags == ("DET", "NOUN")
    with pytest.raises(InputError, match="needs development data"):
        read_task("parse", TaskFiles(tmp_path / "a.conllu", tmp_path / "a.conllu"))


def test_names_ask_for_their_package_before_anything_is_trained(words, monkeypatch):
    monkeypatch.setitem(sys.modules, "seqeval", None)
    with pytest.raises(MissingExtra, match="seqeval"):
        read_task("ner", TaskFiles(words, words))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"task": "nre"}, "no task 'nre'"),
        ({"task": "nli", "examples": 0}, "examples = 0"),
        ({"task": "nli", "learning_rate": float("nan")}, "learning_rate = nan"),
        ({"task": "nli", "score_learning_rate": 1.0}, "score_learning_rate"),
        ({"task": "nli", "probe": True, "epochs": 2}, "a probe has no epochs"),
        ({"task": "nli", "seeds": (1, 1)}, "seeds = "),
    ],
)
def test_invalid_options_are_rejected(options, words):
    with pytest.raises(InputError, match=words):
        Evaluation(**options)


@pytest.mark.parametrize(("family", "found"), [("gpt2", "a decoder"), ("t5", "an encoder-decoder"), ("bert", None)])
def test_only_encoders_are_fine_tuned_and_all_are_probed(family, found, tmp_path):
    pico.saved(family, tmp_path)
    check_model(tmp_path, Evaluation("pos", probe=True))
    if found is None:
        check_model(tmp_path, Evaluation("pos"))
        return
    with pytest.raises(InputError, match=rf"needs an encoder.* is {found} \(.*\): probe it"):
        check_model(tmp_path, Evaluation("pos"))


def test_every_seed_of_a_parser_is_tested_and_the_scores_are_means(tmp_path):
    pico.saved("bert", tmp_path / "bert")
    (tmp_path / "a.conllu").write_text(TREE * 6)
    files = TaskFiles(*[tmp_path / "a.conllu"] * 3)
    options = Evaluation("parse", epochs=1, batch=6, seeds=(0, 1), score_learning_rate=1e-3)
    result = evaluate_task(tmp_path / "bert", files, options, folder=tmp_path / "work")
    assert len(result.per_seed) == 2
    for index, score in enumerate(result.mean):
        assert score.value == pytest.approx(sum(seed.scores[index].value for seed in result.per_seed) / 2)
    assert result.deviation is not None
