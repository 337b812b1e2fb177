"""Packed text: the ids are the tokenizer's own, held-out text stays out, and what is kept is whole or not there."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import ByT5Tokenizer, PreTrainedTokenizerFast

from relexify.errors import InputError, OutputError, VocabularyError
from relexify.processes import PROCESSES
from relexify.progress import report_to
from relexify.text import Corpus
from relexify.tokens import StreamEncoding, encoder_of, separator_of
from relexify.training.data import packing
from relexify.training.data.packing import pack, pack_share
from tests import pico
from tests.processes import count_started, in_a_process
from tests.training.runs import packed_in

LINES = [
    *pico.sentences(50),
    *pico.sentences(20, words=pico.foreign_words()),
    "  leading and   inner  spaces ",
    "</s> <|endoftext|> [SEP] <mask> <tool_call> written out",
    "emoji 😀 and 到处都可以 and \u200b",
]
TOKENIZERS: dict[str, Callable[..., Any]] = {
    maker.__name__: maker
    for maker in (
        *dict.fromkeys(maker for maker, _ in pico.FAMILIES.values()),
        pico.llama2_layout,
        pico.mistral_layout,
        pico.gemma_layout,
        pico.llama3_layout,
        pico.qwen_layout,
    )
}


def plain_ids(tokenizer: Any, lines: list[str]) -> list[int]:
    """Return the ids of every line encoded by itself, each followed by the separator."""
    end = separator_of(tokenizer)
    return [id for line in lines for id in (*tokenizer(line, add_special_tokens=False).input_ids, end)]


@pytest.fixture(autouse=True)
def entries(cache: Path) -> Callable[[], list[Path]]:
    """Return a function for the entries of the cache, unfinished ones included."""
    return lambda: list(cache.glob("packed-text/*"))


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return pico.byte_level()


class Counted:
    """Lines that know how often they were read."""

    def __init__(self, lines: list[str]) -> None:
        self.lines, self.readings = lines, 0

    def __call__(self) -> Iterator[str]:
        self.readings += 1
        return iter(self.lines)


@pytest.mark.parametrize("maker", TOKENIZERS)
def test_ids_are_those_of_a_plain_call_for_every_family(maker: str) -> None:
    tokenizer = TOKENIZERS[maker]()
    packed = pack(Corpus.from_lines(LINES), tokenizer)
    assert packed.tokens.tolist() == plain_ids(tokenizer, LINES)
    assert len(packed) == len(packed.tokens)
    assert packed.paragraphs == np.count_nonzero([line.strip() for line in LINES]) == len(LINES)
    assert packed.bytes == sum(len(line.encode()) + 1 for line in LINES)


def test_a_tokenizer_without_a_fast_backend_is_packed_too() -> None:
    tokenizer = ByT5Tokenizer()
    packed = pack(Corpus.from_lines(LINES), tokenizer)
    assert packed.tokens.tolist() == plain_ids(tokenizer, LINES)
    assert pack(Corpus.from_lines(LINES), ByT5Tokenizer()).name == packed.name
    assert pack(Corpus.from_lines(LINES), ByT5Tokenizer(extra_ids=7)).name != packed.name


def test_batches_do_not_show_in_the_stream(tokenizer: Any) -> None:
    lines = [*pico.sentences(200), "the river " * 150_000, *pico.sentences(40_000)]
    packed = pack(Corpus.from_lines(lines), tokenizer)
    assert packed.tokens.tolist() == [
        id for ids in tokenizer(lines, add_special_tokens=False).input_ids for id in (*ids, packed.separator)
    ]


@pytest.mark.parametrize("maker", [ByT5Tokenizer, pico.byte_level])
def test_a_batch_that_ends_with_the_text_leaves_no_empty_one(maker: Callable[[], Any]) -> None:
    tokenizer = maker()
    packed = pack(Corpus.from_lines(["a" * 999_999]), tokenizer)
    assert packed.bytes == 1_000_000
    assert packed.tokens[-1] == packed.separator
    with pytest.raises(InputError, match=r"all text of .* is also in"):
        pack(Corpus.from_lines(["a"]), tokenizer, excluding=Corpus.from_lines(["a"]))


@pytest.mark.parametrize("maker", [pico.byte_level, pico.wordpiece, ByT5Tokenizer])
def test_the_number_of_processes_does_not_change_the_files(
    maker: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer, lines, held_out = maker(), [*LINES * 5, "<s> </s>"], Corpus.from_lines(LINES[:3])
    tokenizer.split_special_tokens = True
    monkeypatch.setattr(packing, "_BATCH_BYTES", 1_000)
    started = count_started(monkeypatch)
    files = []
    for number in (1, 2, 3):
        monkeypatch.setenv(PROCESSES, str(number))
        monkeypatch.setenv("RELEXIFY_CACHE", str(tmp_path / str(number)))
        packed = pack(Corpus.from_lines(lines), tokenizer, excluding=held_out)
        assert len(started) == (0, 2, 5)[number - 1], "other processes did not tokenize"
        (folder,) = (tmp_path / str(number)).glob("packed-text/*")
        files.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert files[0] == files[1] == files[2]
    assert packed.tokens.tolist() == plain_ids(tokenizer, [line for line in lines if line not in LINES[:3]])


def test_processes_that_tokenize_import_neither_transformers_nor_torch(tokenizer: Any) -> None:
    function = pickle.dumps(StreamEncoding(encoder_of(tokenizer).encode, 0, "<u2"))
    code = (
        "import pickle, sys\npickle.load(sys.stdin.buffer)(['some text'])\n"
        "assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], input=function, check=True)


SMALL_SHARDS = {"_BATCH_BYTES": 1_000, "_SHARD": 2}


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tokenizer: Any) -> Callable[..., dict[str, bytes]]:
    """Return a function for the files of the entry that some processes write together, given their ranks."""
    for name, value in SMALL_SHARDS.items():
        monkeypatch.setattr(packing, name, value)
    corpus, held_out = Corpus.from_lines(LINES * 5), Corpus.from_lines(LINES[:3])

    def pack_in(folder: str, *ranks: tuple[int, int], spoil: Callable[[list[Path]], Any] = len) -> dict[str, bytes]:
        monkeypatch.setenv("RELEXIFY_CACHE", str(tmp_path / folder))
        for rank, number in ranks:
            pack_share(corpus, tokenizer, excluding=held_out, rank=rank, ranks=number)
        spoil(sorted((tmp_path / folder).glob("packed-text-shards/*/*.bin")))
        pack(corpus, tokenizer, excluding=held_out)
        assert not list((tmp_path / folder).glob("packed-text-shards/*")), "the shards are left"
        (entry,) = (tmp_path / folder).glob("packed-text/*")
        return {path.name: path.read_bytes() for path in entry.iterdir()}

    return pack_in


def test_several_hosts_write_the_files_that_one_process_writes(shared: Callable[..., dict[str, bytes]]) -> None:
    found: list[int] = []

    def count(shards: list[Path]) -> None:
        found.append(len(shards))

    alone = shared("alone", spoil=count)
    assert shared("two", (0, 2), (1, 2), spoil=count) == alone
    assert shared("three", (2, 3), (0, 3), (1, 3), spoil=count) == alone
    assert found[0] == 0
    assert found[1] == found[2] > 6, "the first shard is left to the end, all others are not"


def test_shards_of_killed_hosts_and_of_other_numbers_of_hosts_are_used(
    shared: Callable[..., dict[str, bytes]],
) -> None:
    alone = shared("alone")
    assert shared("one of two", (1, 2)) == alone
    assert shared("other number", (1, 2), (0, 3), (1, 3), (2, 3)) == alone
    assert shared("lost", (0, 2), (1, 2), spoil=lambda shards: shards[2].unlink()) == alone
    assert shared("cut", (0, 2), (1, 2), spoil=lambda shards: shards[2].write_bytes(shards[2].read_bytes()[:-2])) == (
        alone
    )
    assert shared("empty", (0, 2), (1, 2), spoil=lambda shards: shards[0].write_bytes(b"")) == alone


def test_shards_are_used_instead_of_the_text(tokenizer: Any, shared: Callable[..., dict[str, bytes]]) -> None:
    def replace_tokens(shards: list[Path]) -> None:
        tokens = np.frombuffer(shards[0].read_bytes()[16:], "<u2")
        changed = np.roll(tokens, 1).tobytes()
        shards[0].write_bytes(hashlib.blake2b(changed, digest_size=16).digest() + changed)

    assert shared("changed", (1, 2), spoil=replace_tokens) != shared("alone")


def test_a_share_of_a_small_text_or_in_a_cache_that_cannot_be_written_is_nothing(
    tokenizer: Any, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for rank in (0, 1):
        pack_share(Corpus.from_lines(LINES), tokenizer, rank=rank, ranks=2)
    assert not list(cache.glob("packed-text*"))
    for name, value in SMALL_SHARDS.items():
        monkeypatch.setattr(packing, name, value)
    (tmp_path / "file").touch()
    monkeypatch.setenv("RELEXIFY_CACHE", str(tmp_path / "file"))
    pack_share(Corpus.from_lines(LINES * 5), tokenizer, rank=0, ranks=2)


def test_truncation_or_padding_left_on_by_a_caller_changes_neither_ids_nor_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = pico.roberta_tokenizer()
    expected, plain = plain_ids(tokenizer, LINES), pack(Corpus.from_lines(LINES), tokenizer)
    tokenizer(LINES, truncation=True, max_length=4, padding="max_length")
    before = tokenizer.backend_tokenizer.to_str()
    monkeypatch.setenv("RELEXIFY_CACHE", str(tmp_path / "another"))
    packed = pack(Corpus.from_lines(LINES), tokenizer)
    assert packed.tokens.tolist() == expected
    assert packed.name == plain.name
    assert tokenizer.backend_tokenizer.to_str() == before, "the caller's tokenizer was changed"


def test_special_tokens_that_are_to_be_split_are_split() -> None:
    tokenizer = pico.roberta_tokenizer()
    whole = pack(Corpus.from_lines(LINES), tokenizer)
    tokenizer.split_special_tokens = True
    split = pack(Corpus.from_lines(LINES), tokenizer)
    assert split.tokens.tolist() == plain_ids(tokenizer, LINES) != whole.tokens.tolist()


def test_half_surrogates_do_not_stop_the_packing(tokenizer: Any) -> None:
    packed = pack(Corpus.from_lines(["a \ud83d b", "\ud83d\ude00"]), tokenizer)
    assert packed.tokens.tolist() == plain_ids(tokenizer, ["a \ufffd b", "😀"])
    assert packed.bytes == len("a \ufffd b\n😀\n".encode())


def test_ids_beyond_sixteen_bits_are_not_cut_off() -> None:
    backend = Tokenizer(models.WordLevel({f"w{number}": number for number in range(70_000)}, unk_token="w0"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    wide = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="w69999", unk_token="w0")
    packed = pack(Corpus.from_lines(["w1 w65535 w65536"]), wide)
    assert packed.tokens.dtype == np.uint32
    assert packed.tokens.tolist() == [1, 65535, 65536, 69999]
    narrow = pack(Corpus.from_lines(LINES), pico.byte_level())
    assert narrow.tokens.dtype == np.uint16


def test_tokens_are_a_map_of_the_file_that_nobody_can_write_to(tokenizer: Any) -> None:
    packed = pack(Corpus.from_lines(LINES), tokenizer)
    assert isinstance(packed.tokens, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        packed.tokens[0] = 1


def test_every_block_has_a_label_for_its_last_token_and_no_block_is_missing(tokenizer: Any) -> None:
    packed = pack(Corpus.from_lines(["the river", "bread"]), tokenizer)
    for length in range(1, len(packed) + 3):
        whole = [start for start in range(0, len(packed), length) if start + length + 1 <= len(packed)]
        assert packed.blocks(length) == len(whole)
    with pytest.raises(InputError, match="length of one or more"):
        packed.blocks(0)


@pytest.mark.parametrize(
    ("roles", "text"),
    [
        ({"eos_token": "E", "sep_token": "S", "bos_token": "B"}, "E"),
        ({"sep_token": "S", "bos_token": "B"}, "S"),
        ({"bos_token": "B"}, "B"),
    ],
)
def test_a_paragraph_ends_with_eos_or_else_sep_or_else_bos(roles: dict[str, str], text: str) -> None:
    tokenizer = pico.byte_level(**roles)
    assert separator_of(tokenizer) == tokenizer.convert_tokens_to_ids(text)


def test_a_tokenizer_without_any_separator_is_rejected() -> None:
    with pytest.raises(VocabularyError, match="set its eos_token, sep_token or bos_token"):
        pack(Corpus.from_lines(LINES), pico.byte_level(pad_token="<pad>"))


def test_what_is_kept_is_not_tokenised_again(tokenizer: Any) -> None:
    lines = Counted(LINES)
    corpus = Corpus.from_lines(lines)
    first = pack(corpus, tokenizer)
    assert lines.readings == 2, "once for the fingerprint, once for the tokens"
    second = pack(corpus, tokenizer)
    assert lines.readings == 2
    pack(Corpus.from_lines(lines), tokenizer)
    assert lines.readings == 3, "another corpus has to find its fingerprint, and no more"
    assert second.tokens.tolist() == first.tokens.tolist()
    names = ("separator", "paragraphs", "bytes", "left_out", "name")
    assert [getattr(second, name) for name in names] == [getattr(first, name) for name in names]


def test_tokens_are_in_the_cache_in_two_bytes_each(tokenizer: Any, entries: Callable[[], list[Path]]) -> None:
    packed = pack(Corpus.from_lines(LINES), tokenizer)
    (entry,) = entries()
    assert (entry / "tokens.bin").stat().st_size == 2 * len(packed)


def test_names_follow_contents_and_not_paths(tmp_path: Path, tokenizer: Any) -> None:
    for name in ("one.txt", "two.txt"):
        (tmp_path / name).write_text("\n".join(LINES))
    (tmp_path / "other.txt").write_text("\n".join(LINES[1:]))
    one, two, other = (Corpus.open(tmp_path / name) for name in ("one.txt", "two.txt", "other.txt"))
    first = pack(one, tokenizer).name
    assert pack(two, pico.byte_level()).name == first
    held_out = Corpus.from_lines(["never seen"])
    others = [
        pack(other, tokenizer).name,
        pack(one, pico.byte_level(size=380)).name,
        pack(one, pico.wordpiece()).name,
        pack(one, tokenizer, excluding=held_out).name,
        pack(one.split(2)[0], tokenizer).name,
        pack(one.subsample(1000), tokenizer).name,
        pack(one.subsample(1000, seed=1), tokenizer).name,
    ]
    assert len({first, *others}) == 8


def test_another_separator_is_another_name() -> None:
    tokenizer = pico.roberta_tokenizer()
    first = pack(Corpus.from_lines(LINES), tokenizer)
    tokenizer.eos_token = "<s>"
    second = pack(Corpus.from_lines(LINES), tokenizer)
    assert (first.separator, second.separator) == (2, 0)
    assert first.name != second.name
    assert second.tokens[-1] == 0


def test_held_out_paragraphs_do_not_leak_into_the_stream(tokenizer: Any, caplog: pytest.LogCaptureFixture) -> None:
    held_out = [LINES[3], LINES[60], "  not in the text  "]
    lines = [*LINES, f"\t{LINES[3]} "]
    with caplog.at_level("INFO"):
        packed = pack(Corpus.from_lines(lines), tokenizer, excluding=Corpus.from_lines(held_out))
    left = [line for line in LINES if line not in held_out]
    assert packed.tokens.tolist() == plain_ids(tokenizer, left)
    assert (packed.left_out, packed.paragraphs) == (3, len(left))
    assert packed.bytes == sum(len(line.encode()) + 1 for line in left)
    assert "3 paragraphs of the given text were left out" in caplog.text
    assert pack(Corpus.from_lines(lines), tokenizer, excluding=Corpus.from_lines(held_out)).left_out == 3


def test_text_without_tokens_is_rejected_and_leaves_nothing(tokenizer: Any, entries: Callable[[], list[Path]]) -> None:
    cases = [
        (Corpus.from_lines([" ", ""]), None, tokenizer, "has only blank lines"),
        (Corpus.from_lines(LINES), Corpus.from_lines(LINES), tokenizer, r"all text of .* is also in"),
        (Corpus.from_lines(["\u200b\u200b"]), None, pico.wordpiece(), "finds no tokens"),
    ]
    for corpus, excluding, reader, message in cases:
        with pytest.raises(InputError, match=message):
            pack(corpus, reader, excluding=excluding)
    assert not entries()


@pytest.mark.parametrize("damage", ["shorter", "longer", "odd", "no tokens", "no json", "half json", "other json"])
def test_a_damaged_stream_is_rebuilt(
    tokenizer: Any, entries: Callable[[], list[Path]], caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    first = pack(Corpus.from_lines(LINES), tokenizer)
    expected = first.tokens.tolist()
    (entry,) = entries()
    tokens, summary = (entry / name for name in ("tokens.bin", "packed.json"))
    content = tokens.read_bytes()
    {
        "shorter": lambda: tokens.write_bytes(content[:-2]),
        "longer": lambda: tokens.write_bytes(content + b"ab"),
        "odd": lambda: tokens.write_bytes(content[:-1]),
        "no tokens": tokens.unlink,
        "no json": summary.unlink,
        "half json": lambda: summary.write_text(summary.read_text()[:20]),
        "other json": lambda: summary.write_text(json.dumps({"tokens": len(expected)})),
    }[damage]()
    again = pack(Corpus.from_lines(LINES), tokenizer)
    assert again.tokens.tolist() == expected
    assert "corrupt; rebuilding it" in caplog.text
    caplog.clear()
    assert pack(Corpus.from_lines(LINES), tokenizer).tokens.tolist() == expected
    assert not caplog.records


def test_progress_reaches_the_size_of_the_text(tmp_path: Path, tokenizer: Any) -> None:
    path = tmp_path / "text.txt"
    path.write_text("".join(f"{line}\n" for line in pico.sentences(40_000)))
    reported: list[Any] = []

    @contextmanager
    def reporter(description: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
        reported.append((description, total))
        yield reported.append

    held_out = Corpus.from_lines(pico.sentences(100))
    with report_to(reporter):
        packed = pack(Corpus.open(path), tokenizer, excluding=held_out)
    assert reported[0] == ("packing text", path.stat().st_size)
    assert len(reported) > 2
    assert sum(reported[1:]) == path.stat().st_size > packed.bytes


def test_a_cache_that_cannot_be_written_is_reported_and_stops_nothing(
    tmp_path: Path, tokenizer: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    expected = pack(Corpus.from_lines(LINES), tokenizer)
    (tmp_path / "file").touch()
    monkeypatch.setenv("RELEXIFY_CACHE", str(tmp_path / "file"))
    packed = pack(Corpus.from_lines(LINES), tokenizer)
    assert "the cache cannot be written" in caplog.text
    assert (packed.name, packed.tokens.tolist()) == (expected.name, expected.tokens.tolist())


def test_a_failure_to_read_is_not_reported_as_a_full_disk(tokenizer: Any, entries: Callable[[], list[Path]]) -> None:
    lines = Counted(LINES)

    def broken() -> Iterator[str]:
        yield from lines()
        if lines.readings > 1:
            raise OSError("the network is gone")

    with pytest.raises(InputError, match=r"cannot be read to its end .*network is gone"):
        pack(Corpus.from_lines(broken), tokenizer)
    assert not entries()


def test_the_stream_of_a_run_that_was_faster_is_no_obstacle(tokenizer: Any, entries: Callable[[], list[Path]]) -> None:
    lines = Counted(LINES)
    faster = []

    def overtaken() -> Iterator[str]:
        yield from lines()
        if lines.readings == 2:
            faster.append(pack(Corpus.from_lines(LINES), tokenizer))

    slower = pack(Corpus.from_lines(overtaken), tokenizer)
    assert slower.name == faster[0].name
    assert slower.tokens.tolist() == faster[0].tokens.tolist() == plain_ids(tokenizer, LINES)
    assert len(entries()) == 1


def test_runs_that_finish_together_do_not_break_one_another(tokenizer: Any) -> None:
    texts = [[*LINES, f"text {number}"] for number in range(20)]
    expected = [plain_ids(tokenizer, text) for text in texts]
    together = Barrier(4)

    def meeting(counted: Counted) -> Iterator[str]:
        yield from counted()
        if counted.readings == 2:
            together.wait(60)

    def run(number: int) -> list[bool]:
        corpora = [Corpus.from_lines(partial(meeting, Counted(text))) for text in texts]
        streams = [pack(corpus, tokenizer) for corpus in corpora]
        return [stream.tokens.tolist() == ids for stream, ids in zip(streams, expected, strict=True)]

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(run, range(4))) == [[True] * 20] * 4


MANY = 30_000
"""Lines that several batches are made of."""


def pack_and_die(tokenizer: Any, cache: Path) -> None:
    """For a process of its own, which dies when the last line has been read for its tokens."""
    readings = []

    def lines() -> Iterator[str]:
        readings.append(1)
        yield from pico.sentences(MANY)
        if len(readings) > 1:
            os.kill(os.getpid(), signal.SIGKILL)

    packed_in(cache, Corpus.from_lines(lines), tokenizer)


def test_a_killed_run_leaves_no_half_stream(
    tmp_path: Path, cache: Path, tokenizer: Any, entries: Callable[[], list[Path]]
) -> None:
    assert in_a_process(pack_and_die, tokenizer, cache) == -signal.SIGKILL
    (begun,) = tmp_path.glob("cache/packed-text/.*/tokens.bin")
    assert begun.stat().st_size > 100_000, "the run was not killed in the middle"
    lines = pico.sentences(MANY)
    packed = pack(Corpus.from_lines(lines), tokenizer)
    (entry,) = entries()
    assert begun.parent.name.startswith(f".{entry.name}."), "it was another text"
    assert packed.paragraphs == len(lines)


def assert_full_disk_is_reported(tokenizer: Any, cache: Path) -> None:
    """For a process of its own, whose files cannot be large."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
    with pytest.raises(OutputError, match=r"could not be written \(File too large\)"):
        packed_in(cache, Corpus.from_lines(pico.sentences(MANY)), tokenizer)


def test_a_full_disk_is_reported_and_leaves_nothing(
    cache: Path, tokenizer: Any, entries: Callable[[], list[Path]]
) -> None:
    assert in_a_process(assert_full_disk_is_reported, tokenizer, cache) == 0
    assert not entries()


def assert_little_memory_is_taken(tokenizer: Any, cache: Path) -> None:
    """For a process of its own, whose peak of memory is that of the packing."""
    sentences = pico.sentences(MANY)

    def lines() -> Iterator[str]:
        for number in range(8):
            for sentence in sentences:
                yield f"{number} {sentence}"

    packed_in(cache, Corpus.from_lines(sentences), tokenizer)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    packed = packed_in(cache, Corpus.from_lines(lines), tokenizer)
    growth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert packed.bytes > 12_000_000
    assert len(packed) > 4_000_000
    assert growth < 40_000, f"{growth} KB more for {len(packed)} tokens"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems count peak memory in bytes")
def test_text_and_tokens_are_not_gathered_in_memory(cache: Path, tokenizer: Any) -> None:
    assert in_a_process(assert_little_memory_is_taken, tokenizer, cache) == 0
