"""The files of a task, its options, and evaluation of parsers with several seeds."""

from __future__ import annotations

import json
import random
import sys
from dataclasses import replace

import pytest

from relexify.errors import InputError, MissingExtra
from relexify.evaluation.data.files import TaskFiles, read_task
from relexify.evaluation.evaluate import check_task_model, evaluate_task
from relexify.evaluation.finetuning.run import FineTuner
from relexify.evaluation.options import Evaluation
from relexify.evaluation.training import epoch_arguments
from relexify.pretrained.loading import load_model
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


def test_names_and_trees_ask_for_their_packages_before_anything_is_trained(words, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "seqeval", None)
    with pytest.raises(MissingExtra, match="seqeval"):
        read_task("ner", TaskFiles(words, words))
    (tmp_path / "a.conllu").write_text(TREE)
    trees = TaskFiles(tmp_path / "a.conllu", tmp_path / "a.conllu", tmp_path / "a.conllu")
    read_task("parse", trees)
    for missing in ("ufal.chu_liu_edmonds", "ufal"):  # alone, and with the package that it is in
        monkeypatch.delitem(sys.modules, "ufal.chu_liu_edmonds", raising=False)
        monkeypatch.setitem(sys.modules, missing, None)
        with pytest.raises(MissingExtra, match=r"ufal\.chu-liu-edmonds: pip install 'relexify\[evaluation\]'"):
            read_task("parse", trees)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"task": "nre"}, "no task 'nre'"),
        ({"task": "nli", "examples": 0}, "`examples=0"),
        ({"task": "nli", "learning_rate": float("nan")}, "`learning_rate=nan"),
        ({"task": "nli", "score_learning_rate": 1.0}, "score_learning_rate"),
        ({"task": "nli", "probe": True, "epochs": 2}, "a probe has no epochs"),
        ({"task": "nli", "seeds": (1, 1)}, "`seeds="),
        ({"task": "nli", "warmup": 1.5}, "`warmup=1.5"),
        ({"task": "nli", "length": 4}, "`length=4"),
        ({"task": "parse", "length": 64}, "parse has no length"),
        ({"task": "nli", "batches": (16, 0)}, "`batch=0"),
        ({"task": "nli", "batch": 16, "batches": (16, 32)}, "leave out one of the two"),
        ({"task": "nli", "probe": True, "learning_rates": (1e-5,)}, "a probe has no learning_rate"),
        ({"task": "parse", "keep_encoders": True}, "parse fine-tunes no encoder"),
    ],
)
def test_invalid_options_are_rejected(options, words):
    with pytest.raises(InputError, match=words):
        Evaluation(**options)


@pytest.mark.parametrize(("family", "found"), [("gpt2", "a decoder"), ("t5", "an encoder-decoder"), ("bert", None)])
def test_only_encoders_are_fine_tuned_and_all_are_probed(family, found, tmp_path):
    pico.saved(family, tmp_path)
    check_task_model(tmp_path, Evaluation("pos", probe=True))
    if found is None:
        check_task_model(tmp_path, Evaluation("pos"))
        return
    with pytest.raises(InputError, match=rf"needs an encoder.* is {found} \(.*\): probe it"):
        check_task_model(tmp_path, Evaluation("pos"))


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


@pytest.fixture
def colours(tmp_path):
    """A model, and a function that writes pairs whose label is the word in the second text."""
    pico.saved("bert", tmp_path / "bert")

    def write(name: str, count: int, labels: tuple[str, str] = ("entailment", "neutral")) -> str:
        draw = random.Random(name)
        lines = []
        for _ in range(count):
            label = draw.choice(labels)
            colour = "green" if label == labels[0] else "quiet"
            lines.append(
                f"the {draw.choice(['old', 'river'])}\tthe {colour} {draw.choice(['door', 'house'])}\t{label}\n"
            )
        (tmp_path / f"{name}.tsv").write_text("".join(lines))
        return str(tmp_path / f"{name}.tsv")

    return write


LEARNS = {"epochs": 3, "learning_rate": 1e-2, "batch": 16, "length": 16}


def test_warm_up_length_adam_and_clipping_are_options_of_a_task(tmp_path):
    given = {"warmup": 0.06, "length": 64, "weight_decay": 0.01, "beta2": 0.98, "epsilon": 1e-6, "clip": 5.0}
    training = Evaluation("mnli", **given).training
    assert {name: getattr(training, name) for name in given} == given
    arguments = epoch_arguments(training, tmp_path, seed=0, steps=1_000, is_scored=False)
    found = (arguments.warmup_steps, arguments.weight_decay, arguments.adam_beta2, arguments.adam_epsilon)
    assert (*found, arguments.max_grad_norm) == (60, 0.01, 0.98, 1e-6, 5.0)


def test_several_training_files_are_read_as_one_and_each_test_set_is_scored(colours, tmp_path):
    first, second = colours("first", 40), colours("second", 40)
    tests = {"de": colours("de", 20), "fr": colours("fr", 30)}
    files = TaskFiles((first, second), tests)
    assert len(read_task("nli", files).train) == 80
    result = evaluate_task(tmp_path / "bert", files, Evaluation("nli", **LEARNS), folder=tmp_path / "work")
    parts = {name: part.mean[0] for name, part in result.tests.items()}
    assert {name: part.examples for name, part in parts.items()} == {"de": 20, "fr": 30}
    assert result.mean[0].value == pytest.approx((parts["de"].value + parts["fr"].value) / 2)
    alone = evaluate_task(
        tmp_path / "bert", replace(files, test=tests["fr"]), Evaluation("nli", **LEARNS), folder=tmp_path / "alone"
    )
    assert alone.mean == (parts["fr"],), "a test set does not depend on the others"
    again = evaluate_task(tmp_path / "bert", files, Evaluation("nli", **LEARNS), folder=tmp_path / "work")
    assert again == result, "finished seeds are read back with all test sets"


def test_a_search_chooses_on_development_data_and_all_seeds_use_the_choice(colours, tmp_path, monkeypatch):
    files = TaskFiles(colours("train", 128), colours("test", 20), colours("dev", 20))
    options = Evaluation("nli", epochs=4, length=16, learning_rates=(1e-9, 1e-2), batches=(32, 16), seeds=(1, 0))
    result = evaluate_task(tmp_path / "bert", files, options, folder=tmp_path / "work")
    tried = [(candidate.learning_rate, candidate.batch) for candidate in result.search]
    assert tried == [(1e-9, 32), (1e-9, 16), (1e-2, 32), (1e-2, 16)]
    assert result.chosen == max(result.search, key=lambda candidate: candidate.dev)
    assert result.chosen.learning_rate == 1e-2
    assert [seed.seed for seed in result.per_seed] == [1, 0]
    chosen = Evaluation("nli", epochs=4, length=16, learning_rate=1e-2, batch=result.chosen.batch, seeds=(1, 0))
    plain = evaluate_task(tmp_path / "bert", files, chosen, folder=tmp_path / "plain")
    assert plain.per_seed == result.per_seed
    monkeypatch.setattr(FineTuner, "run", lambda *_: pytest.fail("a finished candidate was trained again"))
    assert evaluate_task(tmp_path / "bert", files, options, folder=tmp_path / "work") == result
    with pytest.raises(InputError, match="needs development data"):
        evaluate_task(tmp_path / "bert", replace(files, dev=None), options, folder=tmp_path / "other")


def test_a_kept_encoder_starts_another_task_with_another_number_of_labels(colours, tmp_path):
    files = TaskFiles(colours("train", 60), colours("test", 20))
    options = Evaluation("nli", **LEARNS)
    plain = evaluate_task(tmp_path / "bert", files, options, folder=tmp_path / "work")
    assert plain.encoders == ()
    kept = evaluate_task(tmp_path / "bert", files, replace(options, keep_encoders=True), folder=tmp_path / "work")
    (encoder,) = kept.encoders
    before, after = (load_model(folder) for folder in (tmp_path / "bert", encoder))
    assert type(before) is type(after)
    assert json.loads((encoder / "tokenizer.json").read_text())["truncation"] is None, "left on by encoding"
    moved = [
        name
        for (name, old), (_, new) in zip(
            before.base_model.named_parameters(), after.base_model.named_parameters(), strict=True
        )
        if not old.equal(new)
    ]
    assert any("layer.0" in name for name in moved), "the encoder is the one that was fine-tuned"
    more = [f"the {word}\t{number}\n" for number, word in enumerate(("green", "quiet", "old"))]
    (tmp_path / "tags.tsv").write_text("".join(line.replace("the ", "", 1) + "\n" for line in more) * 8)
    tags = TaskFiles(tmp_path / "tags.tsv", tmp_path / "tags.tsv")
    result = evaluate_task(encoder, tags, Evaluation("pos", **LEARNS), folder=tmp_path / "tags")
    assert result.mean[0].examples == 24
