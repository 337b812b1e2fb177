"""Corpora: every format reads back, every fault is named, splits do not leak."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import subprocess
import sys
from itertools import islice, repeat
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relexify.errors import InputError, MissingExtra
from relexify.text import Corpus, decoding, sample_revisions
from relexify.text import corpus as corpus_module
from relexify.tokens import train_tokenizer_like
from tests import pico
from tests.memory import peak_memory_below

PARAGRAPHS = ["Ng’ombe wangu ni mkubwa.", "到处都可以。", "Über \u2028 allem \x0b steht \x85 das."]
TEXT = "\n".join(PARAGRAPHS) + "\n"


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def zst(content: bytes) -> bytes:
    compressor = pytest.importorskip("zstandard").ZstdCompressor(level=3)
    middle = len(content) // 2
    return bytes(compressor.compress(content[:middle]) + compressor.compress(content[middle:]))


def plain(content: bytes) -> bytes:
    return content


COMPRESSORS = {"": plain, ".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress, ".zst": zst}


@pytest.mark.parametrize("suffix", COMPRESSORS)
def test_text_is_read_from_every_compression(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"corpus.txt{suffix}", COMPRESSORS[suffix](TEXT.encode()))
    corpus = Corpus.open(path)
    assert list(corpus) == PARAGRAPHS
    assert list(corpus) == PARAGRAPHS


@pytest.mark.parametrize("suffix", COMPRESSORS)
def test_json_records_are_read_from_every_compression_line_by_line(tmp_path: Path, suffix: str) -> None:
    records = [{"text": PARAGRAPHS[0] + "\r\n\n" + PARAGRAPHS[1]}, {"text": None}, {"text": PARAGRAPHS[2], "id": 3}]
    content = "\n\n".join(json.dumps(record) for record in records)
    path = write(tmp_path / f"corpus.jsonl{suffix}", COMPRESSORS[suffix](content.encode()))
    assert list(Corpus.open(path)) == PARAGRAPHS


def test_bytes_overrule_a_wrong_name(tmp_path: Path) -> None:
    assert list(Corpus.open(write(tmp_path / "a.gz", lzma.compress(TEXT.encode())))) == PARAGRAPHS
    assert list(Corpus.open(write(tmp_path / "b.txt", gzip.compress(TEXT.encode())))) == PARAGRAPHS
    assert list(Corpus.open(write(tmp_path / "c.xz", TEXT))) == PARAGRAPHS


def test_parquet_is_read_and_a_missing_column_or_damage_is_reported(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "corpus.parquet"
    parquet.write_table(pyarrow.table({"text": [*PARAGRAPHS, None], "number": [1, 2, 3, 4]}), path)
    assert list(Corpus.open(path)) == PARAGRAPHS
    with pytest.raises(InputError, match=r"row 1, has no field 'body', only number, text"):
        list(Corpus.open(path, text_field="body"))
    with pytest.raises(InputError, match=r"row 1, has a int in the field 'number'"):
        list(Corpus.open(path, text_field="number"))
    write(path, path.read_bytes()[:-20])
    with pytest.raises(InputError, match="damaged parquet"):
        list(Corpus.open(path))


def test_parquet_whose_text_is_not_utf8_is_rejected(tmp_path: Path) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "corpus.parquet"
    parquet.write_table(pyarrow.table({"text": PARAGRAPHS}), path, compression="none", use_dictionary=False)
    path.write_bytes(path.read_bytes().replace(b"ombe wangu", b"ombe \xff\xfe\xff\xfe\xff"))
    with pytest.raises(InputError, match="damaged parquet"):
        list(Corpus.open(path))


def test_folders_lists_and_patterns_are_read_in_sorted_order(tmp_path: Path) -> None:
    write(tmp_path / "b.txt", "two\n")
    write(tmp_path / "a.txt.gz", gzip.compress(b"one\n"))
    write(tmp_path / "notes.md", "not corpus\n")
    (tmp_path / "deep").mkdir()
    write(tmp_path / "deep" / "c.jsonl", '{"text": "three"}\n')
    assert list(Corpus.open(tmp_path)) == ["one", "two", "three"]
    assert list(Corpus.open([tmp_path / "b.txt", str(tmp_path / "a.txt.gz")])) == ["two", "one"]
    assert list(Corpus.open(str(tmp_path / "*.txt*"))) == ["one", "two"]
    assert list(Corpus.open(tmp_path.glob("b*"))) == ["two"]
    assert Corpus.open(tmp_path / "b.txt").size() == (tmp_path / "b.txt").stat().st_size
    assert Corpus.open(tmp_path).size() is None, "the size of a compressed text is not known"


def test_data_sets_are_read_as_objects() -> None:
    datasets = pytest.importorskip("datasets")
    data_set = datasets.Dataset.from_dict({"text": PARAGRAPHS})
    for records in (data_set, data_set.to_iterable_dataset()):
        corpus = Corpus.open(records)
        assert list(corpus) == list(corpus) == PARAGRAPHS
        assert corpus.fingerprint() == Corpus.open(records).fingerprint()
        assert corpus.size() is None
    with pytest.raises(InputError, match="record 1, has no field 'body', only text"):
        list(Corpus.open(data_set, text_field="body"))
    with pytest.raises(InputError, match="a DatasetDict with train"):
        Corpus.open(datasets.DatasetDict(train=data_set))


def test_a_hub_name_opens_a_stream_and_its_faults_are_named(tmp_path: Path) -> None:
    pytest.importorskip("datasets")
    folder = tmp_path / "local"
    folder.mkdir()
    write(folder / "train.jsonl", "".join(json.dumps({"text": text}) + "\n" for text in PARAGRAPHS))
    assert list(Corpus.open(f"hf:{folder}")) == PARAGRAPHS
    assert list(Corpus.open(f"hf:{folder}:default:train")) == PARAGRAPHS
    assert len(Corpus.open(f"hf:{folder}").fingerprint()) == 64
    with pytest.raises(InputError, match="cannot be opened"):
        list(Corpus.open(f"hf:{folder}::nowhere"))
    with pytest.raises(InputError, match="give hf:NAME"):
        Corpus.open("hf:a:b:c:d")


def test_lines_end_at_newlines_only_and_marks_of_windows_vanish(tmp_path: Path) -> None:
    path = write(tmp_path / "windows.txt", b"\xef\xbb\xbf" + TEXT.replace("\n", "\r\n \r\n").encode())
    assert list(Corpus.open(path)) == PARAGRAPHS


def test_lines_longer_than_a_block_stay_whole(tmp_path: Path) -> None:
    long = "é" * 1_700_001
    path = write(tmp_path / "long.txt", f"a\n{long}\nb")
    assert list(Corpus.open(path)) == ["a", long, "b"]


def test_half_surrogates_in_json_do_not_reach_the_encoder(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"text": "a \\ud83d b \\ud83d\\ude00"}\n')
    assert list(Corpus.open(path)) == ["a \ufffd b 😀"]


def test_half_surrogates_in_memory_do_not_reach_the_training_of_a_tokenizer() -> None:
    lines = [f"{line} \ud83d b \ud83d\ude00" for line in pico.sentences(40)]
    for corpus in (Corpus.from_lines(lines), Corpus.from_lines(lambda: iter(lines))):
        assert next(iter(corpus)).endswith("\ufffd b 😀")
        assert len(train_tokenizer_like(pico.byte_level(), lambda corpus=corpus: corpus, 300)) == 300


FAULTS: dict[str, tuple[str, bytes, str]] = {
    "empty": ("a.txt", b"", r"a\.txt is empty \(0 bytes\)"),
    "blank": ("a.txt", b" \n\n\t\n", r"a.txt has only blank lines: give a file"),
    "latin1": (
        "a.txt",
        "eins\nzwei\nüber\n".encode("latin1"),
        r"line 3 holds the byte 0xfc; .*iconv -f latin1 -t utf-8",
    ),
    "cut off": ("a.txt", "mektep\nمەكتەپ".encode()[:-1], r"ends in the middle of a character"),
    "utf16": ("a.txt", "eins\n".encode("utf-16"), r"is UTF-16[LB]E, not UTF-8: .*iconv -f UTF-16"),
    "utf32": ("a.txt", "eins\n".encode("utf-32"), r"is UTF-32[LB]E, not UTF-8"),
    "binary": ("a.txt", b"eins\n\x01\x00\x02", r"is not text \(line 2 holds a NUL byte\)"),
    "workbook": ("a.xlsx", b"PK\x03\x04....", r"is a document of an office program: save it as plain text"),
    "zip": ("a.txt", b"PK\x03\x04....", r"is a zip archive: unpack it"),
    "truncated gz": ("a.gz", gzip.compress(os.urandom(4000))[:-50], r"\.gz data is truncated or corrupt"),
    "truncated xz": ("a.xz", lzma.compress(TEXT.encode() * 90)[:-30], r"\.xz data is truncated or corrupt"),
    "truncated bz2": ("a.bz2", bz2.compress(TEXT.encode() * 90)[:-30], r"\.bz2 data is truncated or corrupt"),
    "corrupt gz": ("a.gz", gzip.compress(TEXT.encode() * 90)[:40] + b"?" * 90, r"\.gz data is truncated or corrupt"),
    "headless xz": ("a.xz", lzma.compress(TEXT.encode() * 90)[6:], r"does not begin like a \.xz file|is not text"),
    "no json": ("a.jsonl", b'{"text": "a"}\n{"text": \n', r"a\.jsonl, line 2, is not json"),
    "json array": ("a.json", b'[{"text": "a"}]', r"line 1, holds a list: each line must be one json object"),
    "no field": ("a.jsonl", b'{"text": "a"}\n\n{"id": 1, "body": "b"}', r"line 3, has no field 'text', only body, id"),
    "deep json": ("a.jsonl", b"[" * 100_000, r"line 1, is not json \(it nests too many"),
    "no string": ("a.jsonl", b'{"text": ["a"]}', r"line 1, has a list in the field 'text'"),
    "no parquet": ("a.parquet", b"PAR1 and nothing more", r"damaged parquet"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_file_is_named_with_its_fault(tmp_path: Path, fault: str) -> None:
    name, content, message = FAULTS[fault]
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    corpus = Corpus.open(write(tmp_path / name, content))
    with pytest.raises(InputError, match=message):
        list(corpus)


def test_truncated_zst_is_not_taken_for_a_short_text(tmp_path: Path) -> None:
    content = zst("".join(f"line {number}\n" for number in range(50_000)).encode())
    for broken in (content[:-9], content[: len(content) // 3], content[:200] + b"?" * 200):
        with pytest.raises(InputError, match=r"\.zst data is truncated or corrupt"):
            list(Corpus.open(write(tmp_path / "a.zst", broken)))


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
@pytest.mark.parametrize("repeated", [b"a", b"word\n"])
def test_a_bomb_takes_bounded_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, repeated: bytes
) -> None:
    monkeypatch.setattr(decoding, "LONGEST_LINE", 1 << 22)
    bomb = write(tmp_path / f"bomb.txt{suffix}", COMPRESSORS[suffix](repeated * ((1 << 27) // len(repeated))))
    with peak_memory_below(100_000_000):
        if repeated.endswith(b"\n"):
            assert set(islice(Corpus.open(bomb), 1 << 10)) == {"word"}
        else:
            with pytest.raises(InputError, match="line 1, has more than 4,194,304 bytes"):
                list(Corpus.open(bomb))


def test_an_endless_line_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "LONGEST_LINE", 1 << 20)
    file = tmp_path / "long.txt"
    file.write_text("one\ntwo\n" + "x" * (1 << 22))
    with pytest.raises(InputError, match="line 3, has more than 1,048,576 bytes"):
        list(Corpus.open(file))


def test_text_that_is_not_the_one_with_the_fingerprint_is_rejected(tmp_path: Path) -> None:
    file = write(tmp_path / "text.txt", TEXT.encode())
    corpus = Corpus.open(file)
    training, _ = Corpus.open(file).split(2)
    before = corpus.fingerprint(), training.fingerprint()
    os.utime(file, ns=(0, 0))
    assert list(corpus) == PARAGRAPHS, "the time alone says nothing"
    assert corpus.fingerprint() == before[0]
    file.write_bytes(TEXT.encode() + b"\nmore\n")
    for text in (corpus, training):
        with pytest.raises(InputError, match=r"text\.txt has changed while it was read: run the command again"):
            list(text)
    again = Corpus.open(file)
    assert again.fingerprint() != before[0]
    lines = iter(again)
    next(lines)
    with open(file, "ab") as stream:
        stream.write(b"still more\n")
    with pytest.raises(InputError, match="has changed while it was read"):
        list(lines)


@pytest.mark.parametrize("end", ["", "\r", "\n", "\r\n"])
def test_text_with_carriage_returns_alone_is_not_read_as_one_line(tmp_path: Path, end: str) -> None:
    file = tmp_path / "text.txt"
    file.write_bytes(("ra ki\rlo mü\rra lo" + end).encode())
    with pytest.raises(InputError, match=r"a carriage return alone.* convert it with `tr "):
        list(Corpus.open(file))
    for same in ("one \r line" + end, "one\r\ntwo\r\nthree" + end, "50%\r75%\r100%\ndone\nall"):
        file.write_bytes(same.encode())
        assert list(Corpus.open(file)), "a carriage return within a line is white space"


def test_text_in_utf16_without_a_mark_is_recognised(tmp_path: Path) -> None:
    file = tmp_path / "wide.txt"
    file.write_text("some words\n" * 3, encoding="utf-16-le")
    with pytest.raises(InputError, match="if it is UTF-16LE, convert it with `iconv -f UTF-16LE"):
        list(Corpus.open(file))


def test_a_bad_byte_far_into_a_file_has_the_right_line_number(tmp_path: Path) -> None:
    content = b"a line of text\n" * 200_000 + b"\xff\n"
    with pytest.raises(InputError, match="line 200001 holds the byte 0xff"):
        list(Corpus.open(write(tmp_path / "a.txt", content)))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("/nowhere/at/all.txt", r"all\.txt does not exist"),
        ("", "name of a corpus is empty"),
        (["  "], "name of a corpus is empty"),
        ("/nowhere/*.txt", r"matches no file"),
        ("a text taken for a path " * 200, r"cannot be opened|does not exist"),
        ([], r"a corpus cannot be read from a list"),
        ([1, 2], r"a corpus cannot be read from a list"),
        (7, r"a corpus cannot be read from a int"),
        ({"train": "a"}, r"a dict with train"),
    ],
)
def test_an_invalid_corpus_is_rejected_at_once(source: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Corpus.open(source)  # type: ignore[arg-type]


def test_a_misspelt_name_suggests_the_file_beside_it(tmp_path):
    (tmp_path / "swahili.txt").write_text("shule\n")
    with pytest.raises(InputError, match=r"swahilli\.txt does not exist: did you mean '.*/swahili\.txt'\?"):
        Corpus.open(tmp_path / "swahilli.txt")
    for name in ("sw.txt", "en-sw.tsv", "en-sw.held.txt"):
        (tmp_path / name).write_text("shule\n")
    with pytest.raises(InputError, match=r"en-sw\.txt does not exist: did you mean '.*/en-sw\.(tsv|held\.txt)'\?"):
        Corpus.open(tmp_path / "en-sw.txt")
    (tmp_path / "copy.txt").write_text("shule\n")
    with pytest.raises(InputError, match=r"nope\.txt does not exist: check the name"):
        Corpus.open(tmp_path / "nope.txt")
    (tmp_path / "loop.txt").symlink_to("loop.txt")
    with pytest.raises(InputError, match=r"loop\.txt is a link to nothing"):
        Corpus.open(tmp_path / "loop.txt")
    with pytest.raises(InputError, match=r"english\.txt does not exist: check the name"):
        Corpus.open(tmp_path / "english.txt")


def test_the_field_can_be_named_after_the_file(tmp_path: Path) -> None:
    line = json.dumps({"text": "no", "body": "yes", "a b": "odd"})
    path = write(tmp_path / "news.jsonl", line)
    write(tmp_path / "plain.txt", "plain")
    assert list(Corpus.open(f"{path}#body")) == ["yes"]
    assert list(Corpus.open(f"{path}#a b", text_field="body")) == ["odd"], "a name of its own does not count more"
    assert list(Corpus.open(f"{tmp_path}/n*.jsonl#body")) == ["yes"]
    assert list(Corpus.open([f"{tmp_path}#body", str(path)])) == ["yes", "plain", "no"]
    assert Corpus.open(f"{path}#body").fingerprint() == Corpus.open(path, text_field="body").fingerprint()
    assert list(Corpus.open(Path(f"{path}#body"))) == ["yes"]
    with pytest.raises(InputError, match="has no field 'title', only a b, body, text"):
        list(Corpus.open(f"{path}#title"))
    with pytest.raises(InputError, match=r"plain.txt is plain text without fields, but #body was given: remove #body"):
        Corpus.open(tmp_path / "plain.txt#body")
    with pytest.raises(InputError, match=r"none.jsonl does not exist"):
        Corpus.open(tmp_path / "none.jsonl#body")


def test_a_file_with_the_sign_of_a_field_in_its_name_is_that_file(tmp_path: Path) -> None:
    (tmp_path / "a#b").mkdir()
    write(tmp_path / "a#b" / "c.jsonl", json.dumps({"text": "in a folder"}))
    write(tmp_path / "d#1.txt", "in a file")
    assert list(Corpus.open(tmp_path / "a#b" / "c.jsonl")) == ["in a folder"]
    assert list(Corpus.open(tmp_path / "a#b")) == ["in a folder"]
    assert list(Corpus.open(str(tmp_path / "d#*.txt"))) == ["in a file"]
    assert list(Corpus.open(tmp_path / "d#1.txt")) == ["in a file"]


def test_folders_without_text_and_pipes_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no corpus files"):
        Corpus.open(tmp_path)
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(InputError, match="is not a regular file"):
        Corpus.open(tmp_path / "pipe.txt")


def test_a_model_among_the_files_of_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "a.txt").write_text("one")
    (tmp_path / "out" / "config.json").write_text("{\n}")
    assert len(Corpus.open(tmp_path).sources) == 2, "a config alone is not a model"
    (tmp_path / "out" / "model.safetensors").touch()
    for name in (tmp_path, tmp_path / "**/*.json"):
        with pytest.raises(InputError, match=r"out is a model folder, not text: it has config\.json and model\.safet"):
            Corpus.open(name)
    (tmp_path / "out" / "b.txt").write_text("two")
    assert list(Corpus.open(tmp_path / "**/*.txt")) == ["one", "two"], "no file of the model matches"
    (tmp_path / "out" / "vocab.txt").touch()
    with pytest.raises(InputError, match="out is a model folder"):
        Corpus.open(tmp_path / "**/*.txt")


def test_lines_that_can_be_read_only_once_are_rejected() -> None:
    for lines in (iter(["a"]), "one text"):
        with pytest.raises(InputError, match="give a list of texts or a function"):
            Corpus.from_lines(lines)  # type: ignore[arg-type]
    assert list(Corpus.from_lines(lambda: iter(["a", "b\nc"]))) == ["a", "b", "c"]


def read(corpus: Corpus) -> list[str]:
    """The paragraphs; none where the side of a split is empty."""
    try:
        return list(corpus)
    except InputError:
        return []


@settings(deadline=None, max_examples=60)
@given(st.lists(st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]))), st.integers(2, 5))
def test_a_split_loses_nothing_and_leaks_nothing(lines: list[str], every: int) -> None:
    corpus = Corpus.from_lines(lines)
    training, held_out = (read(side) for side in corpus.split(every))
    assert sorted(training + held_out) == sorted(line for line in lines if line.strip())
    assert not {line.strip() for line in training} & {line.strip() for line in held_out}


def test_a_split_holds_out_about_one_in_n_even_of_a_side() -> None:
    corpus = Corpus.from_lines([f"line {number}" for number in range(20_000)])
    training, held_out = corpus.split(100)
    assert 150 < len(list(held_out)) < 250
    fitting, tuning = training.split(100)
    assert 150 < len(list(tuning)) < 250
    assert not set(tuning) & (set(held_out) | set(fitting))


def test_a_record_is_held_out_as_a_whole() -> None:
    corpus = Corpus.from_lines([f"{number} begins\n{number} ends" for number in range(500)])
    _, held_out = corpus.split(5)
    numbers = [line.split()[0] for line in held_out]
    assert numbers[::2] == numbers[1::2]


def test_a_side_without_text_and_a_split_of_everything_are_rejected() -> None:
    with pytest.raises(InputError, match="too few different lines to hold out one line in 1000"):
        list(Corpus.from_lines(["a", "b"]).split(1000)[1])
    lines = (Corpus.from_lines([word]) for word in "abcdefgh")
    with pytest.raises(InputError, match="too few different lines to hold out one line in 2"):
        sum(len(list(corpus.split(2)[0])) for corpus in lines)  # about half of them are held out
    for side in Corpus.from_lines([" "]).split():
        with pytest.raises(InputError, match="only blank lines"):
            list(side)
    with pytest.raises(InputError, match="two or more"):
        Corpus.from_lines(["a"]).split(1)


def test_a_split_and_a_fingerprint_are_the_same_in_every_process() -> None:
    script = (
        "from relexify.text import Corpus\n"
        "corpus = Corpus.from_lines([f'line {n}' for n in range(300)])\n"
        "held = corpus.split(10)[1]\n"
        "print(list(held), held.fingerprint(), corpus.fingerprint())"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_a_fingerprint_depends_on_content_and_side_but_not_on_names(tmp_path: Path) -> None:
    one, two = write(tmp_path / "one.txt", TEXT), write(tmp_path / "two.txt", TEXT)
    other = write(tmp_path / "other.txt", TEXT + "more\n")
    whole = Corpus.open(one)
    assert whole.fingerprint() == Corpus.open(two).fingerprint()
    sides = [side.fingerprint() for side in whole.split()]
    both = Corpus.open([one, two]).fingerprint()
    assert len({whole.fingerprint(), Corpus.open(other).fingerprint(), both, *sides}) == 5


def test_the_sizes_of_the_sides_add_up(tmp_path: Path) -> None:
    corpus = Corpus.open(write(tmp_path / "a.txt", "a" * 999 + "\n"))
    training, held_out = corpus.split(10)
    assert (corpus.size(), training.size(), held_out.size()) == (1000, 900, 100)


NUMBERED = [f"line {number} {'é' * (number % 90)}" for number in range(20_000)]


def size_of(corpus: Corpus) -> int:
    """The bytes of its text, a newline after each paragraph."""
    return sum(len(line.encode()) + 1 for line in corpus)


def test_a_subsample_has_about_as_many_bytes_as_requested(tmp_path: Path) -> None:
    records = (json.dumps({"text": line, "more": "not text " * 9}) for line in NUMBERED)
    sources = {
        "lines": Corpus.from_lines(NUMBERED),
        "windows": Corpus.open(write(tmp_path / "a.txt", "\r\n\r\n\r\n".join(NUMBERED))),
        "compressed": Corpus.open(write(tmp_path / "a.xz", lzma.compress("\n".join(NUMBERED).encode()))),
        "records": Corpus.open(write(tmp_path / "a.jsonl", "\n".join(records))),
    }
    for name, corpus in sources.items():
        size, training = size_of(corpus), corpus.split(2)[0]
        for share in (0.02, 0.3, 0.9):
            limit = round(share * size)
            assert 0.8 < size_of(corpus.subsample(limit)) / limit < 1.2, (name, share)
            assert 0.8 < size_of(training.subsample(limit // 2)) / (limit // 2) < 1.2, (name, share)


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 9_000), st.integers(1, 9_000), st.integers(0, 2**64 - 1), st.randoms(use_true_random=False))
def test_a_smaller_subsample_is_part_of_a_larger_one_in_any_order(
    smaller: int, larger: int, seed: int, chance: Random
) -> None:
    smaller, larger = sorted((smaller, larger))
    lines = NUMBERED[:300]
    shuffled = chance.sample(lines, len(lines))
    drawn = read(Corpus.from_lines(lines).subsample(larger, seed))
    assert set(read(Corpus.from_lines(shuffled).subsample(smaller, seed))) <= set(drawn)
    assert sorted(read(Corpus.from_lines(shuffled).subsample(larger, seed))) == sorted(drawn)
    assert drawn == [line for line in lines if line in set(drawn)], "the order of the text was lost"


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_bounded_corpus_is_the_corpus_itself_unless_it_is_larger(tmp_path: Path, suffix: str, caplog) -> None:
    corpus = Corpus.open(write(tmp_path / f"a.txt{suffix}", COMPRESSORS[suffix]("\n".join(NUMBERED).encode())))
    assert corpus.bounded(10**9) is corpus
    assert not caplog.text
    assert 0.5 < size_of(corpus.bounded(20_000)) / 20_000 < 1.5


def test_subsamples_with_other_limits_and_seeds_have_other_fingerprints() -> None:
    corpus = Corpus.from_lines(NUMBERED)
    draws = [(50_000, 0), (50_001, 0), (90_000, 0), (50_000, 1), (50_000, 2)]
    prints = {corpus.subsample(limit, seed).fingerprint() for limit, seed in draws}
    assert len({corpus.fingerprint(), *prints, *(side.fingerprint() for side in corpus.split())}) == 8
    assert corpus.subsample(50_000).fingerprint() == Corpus.from_lines(NUMBERED).subsample(50_000).fingerprint()
    one, other = set(corpus.subsample(50_000)), set(corpus.subsample(50_000, seed=1))
    assert len(one & other) < len(one) / 5, "two seeds draw the same text"


def test_a_subsample_of_a_subsample_is_drawn_independently() -> None:
    corpus = Corpus.from_lines(NUMBERED)
    larger = corpus.subsample(500_000)
    smaller = larger.subsample(250_000)
    assert set(smaller) < set(larger)
    assert 0.8 < size_of(smaller) / 250_000 < 1.2


def test_the_sides_of_a_subsample_lie_within_the_sides_of_the_whole() -> None:
    corpus = Corpus.from_lines(NUMBERED)
    training, held_out = (set(side) for side in corpus.split(10))
    drawn_training, drawn_held_out = (set(side) for side in corpus.subsample(400_000).split(10))
    assert drawn_training < training
    assert drawn_held_out < held_out
    assert len(drawn_held_out) > 50
    assert set(corpus.split(10)[0].subsample(400_000)) < training


def test_a_text_with_less_than_a_subsample_is_taken_whole(caplog: pytest.LogCaptureFixture) -> None:
    corpus = Corpus.from_lines(["abc", " ", "é"])
    assert corpus.subsample(7) is corpus
    assert not caplog.records
    assert corpus.subsample(8) is corpus
    assert "has only 7 bytes of text, fewer than the 8 requested" in caplog.text


def test_impossible_subsamples_are_rejected() -> None:
    corpus = Corpus.from_lines(["a", "b", "c"])
    for limit, seed, message in [(0, 0, "one or more"), (1, -1, "`seed=-1"), (1, 2**64, "not possible")]:
        with pytest.raises(InputError, match=message):
            corpus.subsample(limit, seed)
    with pytest.raises(InputError, match="too few different lines to draw 1 bytes from it"):
        list(Corpus.from_lines(["long " * 1000]).subsample(1))
    with pytest.raises(InputError, match="has only blank lines"):
        Corpus.from_lines([" "]).subsample(1)


def test_the_text_is_counted_once_for_many_subsamples() -> None:
    readings = []

    def lines() -> list[str]:
        readings.append(1)
        return NUMBERED

    corpus = Corpus.from_lines(lines)
    for limit in (10_000, 20_000, 30_000):
        corpus.subsample(limit)
    assert len(readings) == 1


@settings(deadline=None, max_examples=60)
@given(st.lists(st.text("aé\U0001f600", min_size=1), min_size=1), st.integers(1, 60))
def test_a_sample_fits_and_cuts_a_paragraph_only_if_it_would_be_short_without_it(lines: list[str], limit: int) -> None:
    sample = Corpus.from_lines(lines).sample_bytes(limit)
    assert "\n".join(lines).startswith(sample)
    assert len(sample.encode()) <= limit
    taken = sample.split("\n")
    if taken == lines[: len(taken)]:
        assert taken == lines or len("\n".join(lines[: len(taken) + 1]).encode()) > limit
    else:
        assert len("\n".join(taken[:-1]).encode()) < limit / 2
        assert limit - len(sample.encode()) < 4  # bytes of a character


def sized(name: str, lines: int) -> list[str]:
    """Return lines of 49 bytes, which are 50 with their line breaks."""
    return [f"{name} {number:05d} ".ljust(49, name) for number in range(lines)]


def together(*texts: list[str], parts: tuple[corpus_module.Part, ...] = ()) -> Corpus:
    return Corpus(tuple(Corpus.from_lines(lines).sources[0] for lines in texts), parts)


def test_a_sample_has_equal_shares_of_all_sources_whatever_their_sizes() -> None:
    a, b, c = sized("a", 10_000), sized("b", 200), sized("c", 400)
    assert together(a, b, c).sample_bytes(9_000).split("\n") == [*a[:60], *b[:60], *c[:60]]


def test_what_a_short_source_leaves_of_its_share_is_divided_among_the_others() -> None:
    a, b, c = sized("a", 10_000), sized("b", 4), sized("c", 4_000)
    assert together(a, b, c).sample_bytes(9_000).split("\n") == [*a[:88], *b, *c[:88]]
    assert together(b, c, []).sample_bytes(9_000).split("\n") == [*b, *c[:176]]


def test_a_sample_is_all_of_several_sources_if_that_fits(tmp_path: Path) -> None:
    a, b = sized("a", 3), sized("b", 7)
    for number, lines in enumerate((a, b)):
        write(tmp_path / f"{number}.txt", "\n".join(lines))
    corpus = Corpus.open(tmp_path)
    assert corpus.sample_bytes(500).split("\n") == [*a, *b]
    assert corpus.fits(500)
    assert not corpus.fits(498)
    assert corpus.sample_bytes(498).split("\n") != [*a, *b]


def test_sources_that_are_too_many_for_a_sample_are_drawn_from_all_over_them() -> None:
    texts = [sized(chr(97 + number), 100) for number in range(20)]
    drawn = [line[0] for line in together(*texts).sample_bytes(4_000).split("\n")]
    assert drawn == [letter for letter in "afkp" for _ in range(20)]
    short = [sized(chr(97 + number), 1) for number in range(20)]
    assert len(together(*short).sample_bytes(500)) == 499


@settings(deadline=None, max_examples=60)
@given(st.lists(st.lists(st.text("aé\U0001f600", min_size=1, max_size=9)), min_size=2, max_size=5), st.integers(1, 99))
def test_a_sample_of_several_sources_is_a_beginning_of_each(texts: list[list[str]], limit: int) -> None:
    texts.append(["a"])  # at least one paragraph
    sample = together(*texts).sample_bytes(limit)
    assert len(sample.encode()) <= limit
    whole = "\n".join(line for lines in texts for line in lines)
    if len(whole.encode()) <= limit:
        assert sample == whole
    assert len(sample.encode()) >= min(limit, len(whole.encode())) / 2 - 4 * len(texts)


def test_a_sample_of_several_sources_leaves_out_what_the_corpus_leaves_out() -> None:
    corpus = together(sized("a", 5_000), sized("b", 5_000))
    training, held_out = corpus.split(10)
    training = training.without(Corpus.from_lines(sized("a", 40)))
    for part in (training, held_out):
        own = list(part)
        sample = part.sample_bytes(2_000).split("\n")
        assert sample == [*own[:20], *[line for line in own if line[0] == "b"][:20]]


def test_only_results_from_several_sources_depend_on_the_revision_of_samples(tmp_path: Path) -> None:
    for name in "ab":
        write(tmp_path / f"{name}.txt", TEXT)
    assert sample_revisions(tmp_path / "a.txt", None, Corpus.open(tmp_path / "b.txt")) == {}
    assert sample_revisions(None, tmp_path) == sample_revisions([tmp_path / "a.txt", tmp_path / "b.txt"]) != {}


def test_text_is_ensured_without_reading_it_all() -> None:
    endless = Corpus.from_lines(lambda: repeat("text"))
    assert endless.ensure_text() is endless
    with pytest.raises(InputError, match="has only blank lines"):
        Corpus.from_lines([" "]).ensure_text()


@pytest.mark.parametrize(
    ("package", "name"), [("zstandard", "a.zst"), ("pyarrow", "a.parquet"), ("datasets", "hf:name")]
)
def test_a_missing_package_is_named_with_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, name: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    magic = {"a.zst": b"\x28\xb5\x2f\xfd", "a.parquet": b"PAR1"}.get(name)
    corpus = Corpus.open(write(tmp_path / name, magic) if magic else name)
    with pytest.raises(MissingExtra, match=rf"needs the package {package}: pip install 'relexify\[corpora\]'"):
        list(corpus)


def test_a_corpus_opened_twice_is_the_same_corpus() -> None:
    corpus = Corpus.from_lines(["a"])
    assert Corpus.open(corpus) is corpus


def test_a_sample_throughout_has_alternating_lines_and_parts_of_a_single_long_one() -> None:
    lines = [f"{'abcd'[number % 4]}{number}" for number in range(20_000)]
    sample = Corpus.from_lines(lines).sample_throughout(10_000)
    assert len(sample) <= 10_000
    taken = sample.split("\n")
    assert {line[0] for line in taken} == set("abcd")
    places = [int(line[1:]) for line in taken]
    assert min(places) < 2_000
    assert max(places) > 18_000
    assert places == sorted(places)
    joined = Corpus.from_lines([" ".join(lines)]).sample_throughout(10_000)
    assert 1_000 < len(joined) <= 10_000
    assert Corpus.from_lines(lines[:10]).sample_throughout(10_000) == "\n".join(lines[:10])
    assert Corpus.from_lines(["the same"] * 5_000).sample_throughout(10_000) == "the same"


def test_how_many_lines_are_left_out_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = Corpus.from_lines(["one", "two", " one ", "three"])
    held_out = Corpus.from_lines(["one", "four"])
    assert corpus.describe_left_out() == ""
    assert corpus.without(Corpus.from_lines(["four"])).describe_left_out() == ""
    found = "2 of 4 lines are left out, because the given text has them"
    assert corpus.without(held_out).describe_left_out() == found
    monkeypatch.setattr(corpus_module, "_MOST_COUNTED", 6)
    found = "1 of the first 2 lines is left out, because the given text has it"
    assert corpus.without(held_out).describe_left_out() == found
