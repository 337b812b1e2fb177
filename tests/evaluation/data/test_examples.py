"""Labelled texts and pairs, and every invalid line rejected with its number."""

from __future__ import annotations

import gzip
import json
import lzma
import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest

from relexify.errors import InputError, MissingExtra
from relexify.evaluation.data.examples import (
    Example,
    FieldNames,
    read_examples,
    read_nli,
    read_records,
)
from relexify.evaluation.registry import TASKS

NLI = 'He said "no.\tHe refused.\tentailment\nIt\'s "late\t"It" is early.\tcontradiction\n'
NLI_EXAMPLES = [
    Example('He said "no.', "He refused.", "entailment"),
    Example("It's \"late", '"It" is early.', "contradiction"),
]
STS = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n"


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def write(text: str, name: str = "data.tsv") -> Path:
        path = tmp_path / name
        path.write_bytes(text.encode())
        return path

    return write


@pytest.mark.parametrize("pack", [None, gzip.compress, lzma.compress])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_nli_lines_plain_and_compressed(tmp_path, pack, end):
    data = NLI.replace("\n", end).encode()
    path = tmp_path / {None: "a.tsv", gzip.compress: "a.tsv.gz", lzma.compress: "a.tsv.xz"}[pack]
    path.write_bytes(pack(data) if pack else data)
    assert read_nli(path) == NLI_EXAMPLES
    assert read_examples(path) == NLI_EXAMPLES


def test_nli_with_a_source_a_header_blank_lines_and_no_last_newline(write):
    path = write("premise\thypothesis\tlabel\tsource\na\tb\tneutral\tsnli\n\nc\td\tentailment\tsick")
    assert [example.label for example in read_nli(path)] == ["neutral", "entailment"]


def test_the_translated_training_files_of_xnli_spell_a_label_in_another_way(write):
    path = write("premise\thypo\tlabel\na\tb\tcontradictory\nc\td\tcontradiction\n")
    assert [example.label for example in read_nli(path)] == ["contradiction"] * 2


def test_pairs_without_agreement_are_skipped_with_a_warning(write, caplog):
    assert len(read_nli(write("a\tb\t-\nc\td\tneutral\n"))) == 1
    assert "1 of 2 examples" in caplog.text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\tb\tneutral\na\tb\n", "line 2, has 2 columns"),
        ("a b neutral\n", "line 1, has 1 column:"),
        ("a\tb\tneutral\tsnli\tmore\n", "line 1, has 5 columns"),
        ("a\tb\tneutral\n\na\tb\tmaybe\n", r"line 3, has the unknown label 'maybe': give one of contradiction, ent"),
        ("a\tb\t \n", "line 1, has no label"),
        ("\t \tneutral\n", "line 1, holds no text"),
        ("", "is empty"),
        ("premise\thypothesis\tlabel\n", "is empty"),
        ("a\tb\t-\n", "all 1 examples of .* have no label"),
    ],
)
def test_invalid_nli_lines_are_rejected(write, text, message):
    with pytest.raises(InputError, match=message):
        read_nli(write(text))


def test_a_missing_file():
    with pytest.raises(InputError, match=r"nowhere\.tsv cannot be read"):
        read_nli("nowhere.tsv")


def test_glue_files_as_they_are_shipped(write):
    assert TASKS["cola"].read(write('gj04\t1\t\tThe "boat sank.\ngj04\t0\t*\tThe boat sanked.\n')) == [
        Example('The "boat sank.', None, "1"),
        Example("The boat sanked.", None, "0"),
    ]
    assert TASKS["sst-2"].read(write("sentence\tlabel\nbleak \t0\n")) == [Example("bleak ", None, "0")]
    header = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
    assert TASKS["mrpc"].read(write(header + '1\t7\t8\tHe "left .\t" He went .\n')) == [
        Example('He "left .', '" He went .', "1")
    ]
    rte = write("index\tsentence1\tsentence2\tlabel\n0\tA cat sat.\tIt stood.\tnot_entailment\n")
    assert TASKS["rte"].read(rte) == [Example("A cat sat.", "It stood.", "not_entailment")]
    sts = write(STS + "0\tmain\tx\t2012\t1\tnone\tnone\tA man.\tA woman.\t2.400\n")
    assert TASKS["sts-b"].read(sts) == [Example("A man.", "A woman.", 2.4)]
    qnli = write("index\tquestion\tsentence\tlabel\n0\tWho wrote it?\tAnn did.\tentailment\n")
    assert TASKS["qnli"].read(qnli) == [Example("Who wrote it?", "Ann did.", "entailment")]


def test_mnli_training_and_development_files_have_different_columns(write):
    parses = "sentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\tsentence2_parse"
    start = f"index\tpromptID\tpairID\tgenre\t{parses}\tsentence1\tsentence2\tlabel1"
    row = "0\t1\t1n\tfiction\t( a )\t( b )\t(ROOT)\t(ROOT)\tHe sat.\tHe stood.\tneutral"
    train = write(f"{start}\tgold_label\n{row}\tcontradiction\n", "train.tsv")
    matched = write(
        f"{start}\tlabel2\tlabel3\tlabel4\tlabel5\tgold_label\n{row}\t-\t-\t-\t-\tcontradiction\n",
        "dev_matched.tsv",
    )
    assert (
        TASKS["mnli"].read(train) == TASKS["mnli"].read(matched) == [Example("He sat.", "He stood.", "contradiction")]
    )


def test_incomplete_lines_of_qqp_are_skipped_with_a_warning(write, caplog):
    header = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
    path = write(header + "1\t2\t3\tWho?\tWho is it?\t1\n4\t5\t6\tWhat\nis it?\tWhat?\t0\n")
    assert TASKS["qqp"].read(path) == [Example("Who?", "Who is it?", "1")]
    assert "2 lines of" in caplog.text


@pytest.mark.parametrize(
    ("task", "record", "example"),
    [
        ("cola", {"sentence": "It sank.", "label": 1, "idx": 0}, Example("It sank.", None, "1")),
        ("sst-2", {"sentence": "bleak", "label": "negative"}, Example("bleak", None, "0")),
        ("mrpc", {"sentence1": "a", "sentence2": "b", "label": "equivalent"}, Example("a", "b", "1")),
        ("sts-b", {"sentence1": "a", "sentence2": "b", "label": 2.4}, Example("a", "b", 2.4)),
        ("qqp", {"question1": "a", "question2": "b", "label": 0}, Example("a", "b", "0")),
        ("mnli", {"premise": "a", "hypothesis": "b", "label": 2}, Example("a", "b", "contradiction")),
        ("qnli", {"question": "a", "sentence": "b", "label": 1}, Example("a", "b", "not_entailment")),
        ("rte", {"sentence1": "a", "sentence2": "b", "label": "entailment"}, Example("a", "b", "entailment")),
    ],
)
def test_glue_records_with_the_fields_and_classes_of_the_hub(write, task, record, example):
    assert TASKS[task].read(write(records(record), "data.jsonl")) == [example]


@pytest.mark.parametrize(
    ("task", "text", "message"),
    [
        ("cola", "a\t1\tb\n", "line 1, has 3 columns, but cola has 4"),
        ("cola", "a\t2\t\tb\n", "line 1, has the unknown label '2'"),
        ("cola", "", "is empty"),
        ("sst-2", "", "is empty"),
        ("sst-2", "sentence\tlabel\n", "is empty"),
        (
            "sst-2",
            "index\tsentence\n0\ta\n",
            "has no column label of sst-2; it begins with index, sentence: give a file of the task with labels",
        ),
        ("rte", "index\tsentence1\tsentence2\tlabel\n0\ta\tb\tneutral\n", "line 2, has the unknown label 'neutral'"),
        ("qnli", "index\tquestion\tsentence\n0\ta\tb\n", "has no column label of qnli"),
        (
            "sts-b",
            STS + "0\tm\tx\t2\t1\tn\tn\ta\tb\thigh\n",
            "line 2, has the label 'high', but the task needs a number",
        ),
        ("sts-b", STS + "0\tm\tx\t2\t1\tn\tn\ta\tb\tnan\n", "line 2, has the label 'nan', but the task needs a number"),
    ],
)
def test_invalid_glue_files_are_rejected(write, task, text, message):
    with pytest.raises(InputError, match=message):
        TASKS[task].read(write(text))


def records(*found: Any) -> str:
    return "".join(json.dumps(record) + "\n" for record in found)


@pytest.mark.parametrize(
    ("record", "example"),
    [
        ({"premise": "a", "hypothesis": "b", "label": "x"}, Example("a", "b", "x")),
        ({"sentence1": "a", "sentence2": "b", "label": 2}, Example("a", "b", "2")),
        ({"question": "a", "sentence": "b", "label": 0}, Example("a", "b", "0")),
        ({"question1": "a", "question2": "b", "label": 0}, Example("a", "b", "0")),
        ({"sentence": "a", "label": 0}, Example("a", None, "0")),
        ({"id": "en-7", "text": "a", "label": "very good"}, Example("a", None, "very good")),
        ({"text": "a", "label": "pos"}, Example("a", None, "pos")),
    ],
)
def test_records_whose_fields_are_known(write, record, example):
    assert read_records(write(records(record) + "\n")) == [example]
    assert read_examples(write(records(record), "data.jsonl")) == [example]


def test_records_whose_fields_are_named_and_whose_labels_are_numbers(write):
    path = write(records({"one": "a", "two": "b", "how": 3, "premise": "no"}))
    names = FieldNames("one", "two", "how")
    assert read_records(path, fields=names, numeric=True) == [Example("a", "b", 3.0)]


def test_half_a_surrogate_pair_is_replaced(write):
    assert read_records(write('{"sentence": "a\\ud800", "label": 1}\n'))[0].first == "a\ufffd"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n", "is empty"),
        (records({"sentence": "a", "label": 1}) + "{oops\n", "line 2, is not json"),
        ("[1]\n", "line 1, holds a list"),
        ("[" * 100_000, r"line 1, is not json \(it nests too many"),
        (
            records({"body": "a", "label": 1}),
            "line 1, has the fields body, label, but none of the known fields for texts",
        ),
        (
            records({"sentence": "a", "passage": "b c", "label": 1}),
            "line 1, has the text 'sentence' and also 'passage'",
        ),
        (records({"text": "a", "frage": "谁", "label": 1}), "line 1, has the text 'text' and also 'frage'"),
        (records({"sentence": "a"}), "line 1, has no field 'label', only sentence"),
        (records({"sentence": 1, "label": 1}), "line 1, has a int in the field 'sentence'"),
        (records({"sentence": "a", "label": None}), "line 1, has the label None"),
        (records({"sentence": "a", "label": 0.5}), "line 1, has the label 0.5"),
        (records({"sentence": "a", "label": "c"}), r"line 1, has the unknown label 'c': give one of a, b"),
    ],
)
def test_invalid_records_are_rejected(write, text, message):
    with pytest.raises(InputError, match=message):
        read_records(write(text), labels=("a", "b", "1"))


def test_records_with_invalid_numbers_are_rejected(write):
    for label in ("high", 10**400, float("inf")):
        with pytest.raises(InputError, match=r"line 1, has the label .*, but the task needs a number"):
            read_records(write(records({"sentence": "a", "label": label})), numeric=True)


class Classes:
    names = ("entailment", "neutral")

    def int2str(self, number: int) -> str:
        return self.names[number]


class DataSet(list):
    features: ClassVar = {"label": Classes(), "premise": object()}


@pytest.fixture
def requested(monkeypatch) -> list[Any]:
    """The package datasets, with one small data set in it."""
    calls: list[Any] = []

    class Package:
        @staticmethod
        def load_dataset(path: str, config: str | None, *, split: str, streaming: bool) -> DataSet:
            assert not streaming  # the features of a stream may be unknown
            calls.append((path, config, split))
            if path == "gone":
                raise FileNotFoundError("no such thing")
            return DataSet(
                [
                    {"premise": "a", "hypothesis": "b", "label": 1},
                    {"premise": "c", "hypothesis": "d", "label": -1},
                    {"premise": "e", "hypothesis": "f", "label": 0},
                ]
            )

    monkeypatch.setitem(sys.modules, "datasets", Package)
    return calls


def test_data_sets_have_names_of_classes_as_labels(requested):
    expected = [Example("a", "b", "neutral"), Example("e", "f", "entailment")]
    assert read_records("hf:xnli:de:test") == expected
    assert read_examples("hf:xnli") == expected
    assert requested == [("xnli", "de", "test"), ("xnli", None, "train")]


@pytest.mark.parametrize("name", ["hf:", "hf:a:b:c:d"])
def test_names_that_are_no_data_sets(name):
    with pytest.raises(InputError, match="is not a Hub data set"):
        read_records(name)


def test_missing_data_sets_and_fields_are_rejected(requested):
    with pytest.raises(InputError, match=r"hf:gone cannot be opened \(no such thing\)"):
        read_records("hf:gone")
    with pytest.raises(InputError, match="hf:xnli, record 1, has no field 'text', only premise, hypothesis, label"):
        read_records("hf:xnli", fields=FieldNames("text", None))


def test_the_package_datasets_is_optional(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtra, match=r"reading hf:xnli needs the package datasets"):
        read_records("hf:xnli")
