"""Feed damaged files to every reader: each must accept the file or raise one of relexify's own errors.

    python -m benchmarks.fuzz                           # all readers, 10 seconds each
    python -m benchmarks.fuzz --seconds 600 --reader "mixture" --keep found/

Valid files are mutated: bits, slices, numbers, entries of json and of safetensors headers, also inside compressed data.
A case is determined by its reader and number, so what is found can be repeated with `--first NUMBER --cases 1`. Each
reader runs in processes of its own, with little memory and time for a case, so that a crash is counted like any other
failure. Prints a table, and exits with status 1 if any case ended unexpectedly.
"""

from __future__ import annotations

import argparse
import bz2
import gzip
import json
import lzma
import multiprocessing
import random
import re
import resource
import shutil
import signal
import struct
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from relexify.errors import RelexifyError
from relexify.evaluation.data.columns import read_columns
from relexify.evaluation.data.examples import read_examples
from relexify.evaluation.data.treebank import read_treebank
from relexify.evaluation.registry import TASKS
from relexify.evidence.alignment.procrustes import Rotation
from relexify.evidence.bitext import Bitext
from relexify.evidence.bitext.links import parse_links
from relexify.evidence.lexicon import BilingualLexicon
from relexify.evidence.vectors import WordVectors
from relexify.evidence.vectors.ngrams import Ngrams
from relexify.methods import fvt
from relexify.mixture import Mixture
from relexify.recipes.file.recipe import read_recipe, recipe_text
from relexify.storage.files import check_output
from relexify.storage.notes import finished_run, read_notes
from relexify.text import Corpus
from tests import pico
from tests.evidence.vectors.fasttext_file import FastTextFile

Files = dict[str, bytes]
"""The content of files by name; the reader is given the first one, or their folder."""

MEMORY = 1 << 30
"""Bytes that a process may take beyond what the imports take."""
PATIENCE = 10
"""Seconds of processor time that a case may take."""


@dataclass(frozen=True)
class Reader:
    """What reads files, and valid files to start from.

    Attributes:
        read: Reads a file and uses what it holds.
        examples: Valid files; those of a set belong together.
        is_folder: Whether `read` is given the folder rather than the first file.
    """

    read: Callable[[Path], object]
    examples: Callable[[], list[Files]]
    is_folder: bool = False


@dataclass
class Tally:
    """How the cases of a reader ended.

    Attributes:
        counts: By outcome: accepted, rejected or unexpected.
        kinds: What was unexpected, with the number of a case.
    """

    counts: Counter[str] = field(default_factory=Counter)
    kinds: dict[str, int] = field(default_factory=dict)

    def add(self, outcome: str, kind: str, number: int) -> None:
        self.counts[outcome] += 1
        if kind:
            self.kinds.setdefault(kind, number)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reader", action="append", choices=list(READERS), help="one of the readers; repeatable")
    parser.add_argument("--seconds", type=float, default=10, help="for each reader")
    parser.add_argument("--cases", type=int, default=sys.maxsize, help="at most this many for each reader")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--keep", type=Path, help="folder for the files of unexpected cases")
    options = parser.parse_args()
    print("| Reader | cases | accepted | rejected | unexpected | kinds (number of a case) |")
    print("|---|---|---|---|---|---|")
    failed = 0
    for name in options.reader or READERS:
        tally = fuzz(name, options.first, options.cases, options.seconds)
        failed += tally.counts["unexpected"]
        columns = [tally.counts.total(), *(tally.counts[outcome] for outcome in ("accepted", "rejected", "unexpected"))]
        kinds = "; ".join(f"{kind} ({number})" for kind, number in tally.kinds.items())
        print(f"| {name} | {' | '.join(f'{count:,}' for count in columns)} | {kinds} |", flush=True)
        for number in tally.kinds.values() if options.keep else ():
            write(mutated(name, number), options.keep / f"{name.replace(' ', '-')}-{number}")
    sys.exit(1 if failed else 0)


def fuzz(name: str, first: int, cases: int, seconds: float) -> Tally:
    """Run the cases of a reader in processes; a new one continues after a case that crashed or hung."""
    tally, number, end = Tally(), first, time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:  # once before processes are forked, so that modules are imported
        first_file = write(_examples(name)[0], Path(folder))
        READERS[name].read(Path(folder) if READERS[name].is_folder else first_file)
    while number < first + cases and time.monotonic() < end:
        here, there = multiprocessing.get_context("fork").Pipe(duplex=False)
        limits = (name, number, first + cases, end - time.monotonic())
        process = multiprocessing.get_context("fork").Process(target=run_cases, args=(there, *limits))
        process.start()
        there.close()
        finished = True
        while here.poll(20 * PATIENCE):  # a case that waits takes no processor time
            try:
                message = here.recv()
            except EOFError:
                break
            if message is None:
                finished = True
                break
            finished = isinstance(message, tuple)
            if finished:
                tally.add(*message, number)
                number += 1
        process.kill()
        process.join()
        if not finished:
            tally.add("unexpected", f"died with {process.exitcode}", number)
            number += 1
    return tally


def run_cases(results: Connection, name: str, first: int, end: int, seconds: float) -> None:
    """Run cases until the time is over; announce each, and send how it ended."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    signal.signal(signal.SIGPROF, _give_up)
    sys.stderr = open("/dev/null", "w")  # noqa: SIM115 (warnings and backtraces of libraries)
    deadline = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        for number in range(first, end):
            if time.monotonic() > deadline:
                break
            results.send(number)
            signal.setitimer(signal.ITIMER_PROF, PATIENCE)
            outcome = run_case(name, number, Path(folder))
            signal.setitimer(signal.ITIMER_PROF, 0)
            results.send(outcome)
            if outcome[0] == "unexpected":  # a new process continues: this one may have been left in any state
                return
    results.send(None)


def run_case(name: str, number: int, folder: Path) -> tuple[str, str]:
    """Read one mutated file; return the outcome, and what happened if it was unexpected."""
    path = folder / f"case-{number}"
    try:
        first = write(mutated(name, number), path)
        READERS[name].read(path if READERS[name].is_folder else first)
    except RelexifyError:
        return "rejected", ""
    except _Late:
        return "unexpected", f"took more than {PATIENCE} s"
    except Exception as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "relexify" in frame.filename]
        where = f" {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
        return "unexpected", f"{type(error).__name__}{where}"
    finally:
        shutil.rmtree(path, ignore_errors=True)
    return "accepted", ""


def write(files: Files, folder: Path) -> Path:
    """Write files into a folder; return the first."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder / next(iter(files))


class _Late(BaseException):
    """A case takes too long; no reader catches this."""


def _give_up(*_: object) -> None:
    raise _Late


# Mutations ----------------------------------------------------------------------------------------------------------

NUMBERS = (0, -1, 1, 255, 2**15, 2**31 - 1, 2**31, 2**32, 2**63, 2**64, 10**12, 10**20, -(10**20))
TOKENS = (
    b"\0", b"\n", b"\r\n", b"\t", b" ", b"-", b"#", b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xc3", b"nan",
    b"inf", b"1e999", b"9" * 5_000, b"[" * 5_000, b"{" * 200, b"<a>" * 300, b"<!ENTITY a 'b'>", b"\\ud800", b"\\u0000",
    b"a" * 9_000, "\u202e\u200d\U0010ffff".encode(), b"\x1f\x8b", b"PK\x03\x04", b"_", b"0-0", b"../..",
    b"~nobody/x", b"$NONE",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, "", "x", "x" * 3_000, "\ud800", "\0", "../../x", [], {}, [[]], [1, "a"], {"a": {}}, 0.5, 1e308,
    float("nan"), *NUMBERS,
)  # fmt: skip


def mutated(name: str, number: int) -> Files:
    """Return the files of a case; the same for the same reader and number."""
    draw = random.Random(f"{name} {number}")
    examples = _examples(name)
    files = dict(draw.choice(examples))
    chosen = draw.choice(list(files))
    content = files[chosen]
    other = draw.choice(examples).get(chosen, b"")
    for _ in range(draw.choice((1, 1, 2, 3, 8))):
        content = _mutate(content, draw, other)
    files[chosen] = content
    return files


def _examples(name: str) -> list[Files]:
    if name not in _made:
        _made[name] = READERS[name].examples()
    return _made[name]


_made: dict[str, list[Files]] = {}


def _mutate(content: bytes, draw: random.Random, other: bytes) -> bytes:
    """Change a content once; if it is compressed, mostly what is inside."""
    for magic, (compress, decompress) in _CODECS.items():
        if content.startswith(magic) and draw.random() < 0.8:
            try:
                return compress(_mutate(decompress(content), draw, other))
            except Exception:  # damaged by an earlier mutation
                break
    return draw.choice(_MUTATIONS)(content, draw, other)


def _flip(content: bytes, draw: random.Random, _: bytes) -> bytes:
    changed = bytearray(content or b"\0")
    for _ in range(draw.choice((1, 1, 4))):
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def _cut(content: bytes, draw: random.Random, _: bytes) -> bytes:
    start = draw.randrange(len(content) + 1)
    return content[:start] + content[start + draw.choice((1, 2, 8, 100, len(content))) :]


def _insert(content: bytes, draw: random.Random, _: bytes) -> bytes:
    start = draw.randrange(len(content) + 1)
    return content[:start] + draw.choice((*TOKENS, draw.randbytes(draw.randint(1, 20)))) + content[start:]


def _repeat(content: bytes, draw: random.Random, _: bytes) -> bytes:
    start = draw.randrange(len(content) + 1)
    part = content[start : start + draw.choice((1, 4, 40, 400))]
    return content[:start] + part * draw.choice((2, 3, 200)) + content[start:]


def _splice(content: bytes, draw: random.Random, other: bytes) -> bytes:
    return content[: draw.randrange(len(content) + 1)] + other[draw.randrange(len(other) + 1) :]


def _number(content: bytes, draw: random.Random, _: bytes) -> bytes:
    """Replace a decimal number of a text, or four or eight bytes of binary data."""
    value = draw.choice(NUMBERS)
    if found := list(islice(re.finditer(rb"\d+", content), 2_000)):
        at = draw.choice(found)
        return content[: at.start()] + str(value).encode() + content[at.end() :]
    size = draw.choice((4, 8))
    start = draw.randrange(max(1, len(content) - size))
    return content[:start] + (value % (1 << (8 * size))).to_bytes(size, "little") + content[start + size :]


def _json(content: bytes, draw: random.Random, _: bytes) -> bytes:
    """Change an entry of a json file, of a line of json, or of the header of a safetensors file."""
    try:
        if content[8:9] == b"{":
            size = 8 + struct.unpack("<Q", content[:8])[0]
            header = json.loads(content[8:size])
            own = header.get("__metadata__", {}).get("relexify")
            if own and draw.random() < 0.6:
                header["__metadata__"]["relexify"] = json.dumps(_changed(json.loads(own), draw))
            else:
                header = _changed(header, draw)
            text = json.dumps(header).encode()
            return struct.pack("<Q", len(text)) + text + content[size:]
        if content.startswith(b"{") and b"}\n{" in content:
            lines = content.splitlines()
            row = draw.randrange(len(lines))
            lines[row] = json.dumps(_changed(json.loads(lines[row]), draw)).encode()
            return b"\n".join(lines)
        return json.dumps(_changed(json.loads(content), draw)).encode()
    except Exception:  # it is not json, or an earlier mutation damaged it
        return _insert(content, draw, b"")


def _changed(value: Any, draw: random.Random) -> Any:
    """Return json with one entry changed, removed or added."""
    if not isinstance(value, dict | list) or not value or draw.random() < 0.1:
        return draw.choice(VALUES)
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    key = draw.choice(keys)
    action = draw.random()
    if action < 0.15:
        return (
            {k: v for k, v in value.items() if k != key} if isinstance(value, dict) else value[:key] + value[key + 1 :]
        )
    if action < 0.25:
        return (
            {**value, draw.choice(("x", "", "\ud800")): value[key]} if isinstance(value, dict) else [*value, value[key]]
        )
    changed = dict(value) if isinstance(value, dict) else list(value)
    changed[key] = _changed(value[key], draw)
    return changed


_MUTATIONS = (_flip, _flip, _cut, _insert, _insert, _repeat, _splice, _number, _number, _json, _json, _json)


def _zst(content: bytes) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor().compress(content)


def _unzst(content: bytes) -> bytes:
    import zstandard

    return zstandard.ZstdDecompressor().decompress(content)


_CODECS: dict[bytes, tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]] = {
    b"\x1f\x8b": (lambda content: gzip.compress(content, 1), gzip.decompress),
    b"\xfd7zXZ\x00": (lambda content: lzma.compress(content, preset=0), lzma.decompress),
    b"BZh": (bz2.compress, bz2.decompress),
    b"\x28\xb5\x2f\xfd": (_zst, _unzst),
}


# Readers ------------------------------------------------------------------------------------------------------------

LINES = "\n".join(pico.sentences(6, words=pico.foreign_words())) + "\n"
PAIRS = "house\tHaus\ngreen tea\tgrüner Tee\n# en\tde\nto go\tgehen\tverb\n"
TEI = """<?xml version="1.0" encoding="UTF-8"?><TEI xmlns="http://www.tei-c.org/ns/1.0"><text><body>
<entry><form><orth>greet</orth></form><sense><cit type="trans"><quote>grüßen (formal)</quote></cit></sense></entry>
<entry><form><orth>old</orth></form><trans><tr>alt</tr></trans></entry></body></text></TEI>"""
TREE = """# text = We don't go
1\tWe\t_\tPRON\t_\t_\t4\tnsubj\t_\t_
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No
2\tdo\t_\tAUX\t_\t_\t4\taux\t_\t_
3\tn't\t_\tPART\t_\t_\t4\tadvmod\t_\t_
4\tgo\t_\tVERB\t_\t_\t0\troot\t_\t_

"""
RECIPE = """title = "A run"
output = "out"
model = "gpt2"
corpus = ["a.txt", "$HOME/b.txt"]
[transfer]
method = "wechsel"
vocab_size = 400
temperature = 0.1
overrides = {house = "nyumba"}
vectors.width = 16
[training]
steps = 100
plan = "embeddings-first"
learning_rate = 1e-3
warmup = 0.1
[compare]
runs = ["wechsel", "fullrand"]
seeds = [0, 1]
[[tasks]]
task = "ner"
train = "train.tsv"
test = "test.tsv"
"""


def _with_codecs(name: str, text: str) -> Callable[[], list[Files]]:
    content = text.encode()
    return lambda: [{name: content}, {f"{name}.gz": gzip.compress(content)}]


def _all_codecs() -> list[Files]:
    return [{"a.txt": compress(LINES.encode())} for compress in (bytes, *(codec for codec, _ in _CODECS.values()))]


def _parquet() -> list[Files]:
    import pyarrow
    from pyarrow import parquet

    sink = pyarrow.BufferOutputStream()
    parquet.write_table(pyarrow.table({"text": LINES.splitlines(), "id": list(range(6))}), sink)
    return [{"a.parquet": sink.getvalue().to_pybytes()}]


def _dictd() -> list[Files]:
    entries = "ziwa /zˈiwa/ <n>\n1. lake, pond\n", "yes, please\nja gern\n"
    content = "".join(entries).encode()
    first = len(entries[0].encode())
    digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    index = f"ziwa\tA\t{digits[first]}\nyes please\t{digits[first]}\t{digits[len(content) - first]}\n".encode()
    return [{"d.index": index, "d.dict": content}, {"d.index": index, "d.dict.dz": gzip.compress(content)}]


def _saved(name: str, *saves: Callable[[Path], object]) -> list[Files]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        contents = []
        for save in saves:
            save(path)
            contents.append({name: path.read_bytes()})
    return contents


def _vectors() -> list[Files]:
    draw = np.random.default_rng(0)
    words, matrix = ["haus", "häuser", "家"], draw.standard_normal((3, 4), np.float32)
    ngrams = Ngrams(draw.standard_normal((5, 4), np.float32), 2, 3, 50, known=np.arange(5, dtype=np.int64) * 7)
    full = WordVectors(words, matrix, np.array([3, 2, 1]), ngrams, np.eye(4, dtype=np.float32))
    return _saved("v.safetensors", WordVectors(words, matrix).save, full.save)


def _mixtures() -> list[Files]:
    source, target = pico.byte_level(size=280), pico.byte_level(pico.sentences(words=pico.foreign_words()), size=290)
    return _saved("mixture.safetensors", fvt(source, target).save)


def _rotations() -> list[Files]:
    square = Rotation(np.eye(3), pairs_used=7, coverage=0.5)
    return _saved("r.safetensors", square.save, Rotation(np.eye(3), 7, 0.5, target_reduction=np.ones((5, 3))).save)


def _models() -> list[Files]:
    with tempfile.TemporaryDirectory() as folder:
        sets = []
        for family in ("gpt2", "bert"):
            saved = pico.saved(family, Path(folder) / family)
            names = ("config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors")
            sets.append({name: (saved / name).read_bytes() for name in names if (saved / name).exists()})
    return sets


def _marked_folders() -> list[Files]:
    notes = {"files": ["model.bin", "relexify.json"], "finished": {"training": "abc"}, "scores": {"a": 1.5}}
    return [{"relexify.json": json.dumps(notes).encode(), "model.bin": b"x"}]


def _look_up(path: Path) -> None:
    vectors = WordVectors.load(path)
    vectors.lookup(["haus", "家", "unbekannt", *list(vectors.words)[:5]])


def _use_mixture(path: Path) -> None:
    mixture = Mixture.load(path)
    mixture.apply(np.ones((len(mixture.source_tokens), 2), np.float32))
    for token in range(min(len(mixture), 20)):
        mixture.sources(token)
    mixture.counts()
    mixture.save(path.with_name("again.safetensors"))


def _rotate(path: Path) -> None:
    rotation = Rotation.load(path)
    rotation.summary()
    width = len(rotation.matrix)
    WordVectors(["a"], np.ones((1, width), np.float32)).rotated(rotation).lookup(["a"])


def _load_model(path: Path) -> None:
    from relexify.pretrained.loading import load_model, load_tokenizer

    load_tokenizer(path)("šora water, 12")
    load_model(path)


def _check_folder(path: Path) -> None:
    read_notes(path)
    finished_run(path, "training")
    check_output(path, overwrite=True)


def _word2vec() -> list[Files]:
    matrix = np.random.default_rng(0).standard_normal((2, 3), np.float32)
    content = b"2 3\nhaus " + matrix[0].tobytes() + b"\nb\xc3\xa4r " + matrix[1].tobytes() + b"\n"
    return [{"v.bin": content}, {"v.bin.gz": gzip.compress(content)}]


def _records() -> list[Files]:
    lines = [{"premise": "a", "hypothesis": "b", "label": "neutral"}, {"premise": "c", "hypothesis": "d", "label": "-"}]
    nli = b"a b\tc\tneutral\nd\te f\tentailment\tsource\n"
    return [{"r.jsonl": "\n".join(map(json.dumps, lines)).encode()}, {"nli.tsv": nli}]


READERS: dict[str, Reader] = {
    "text, compressed text": Reader(lambda path: list(Corpus.open(path)), _all_codecs),
    "json lines": Reader(
        lambda path: list(Corpus.open(path)),
        _with_codecs("a.jsonl", '{"text": "eins"}\n{"text": null, "id": 1}\n{"text": "z\\u00fc"}'),
    ),
    "parquet": Reader(lambda path: list(Corpus.open(path)), _parquet),
    "dictionary, columns": Reader(BilingualLexicon.load, _with_codecs("d.tsv", PAIRS)),
    "dictionary, TEI": Reader(BilingualLexicon.load, _with_codecs("d.tei", TEI)),
    "dictionary, dictd": Reader(BilingualLexicon.load, _dictd),
    "parallel text": Reader(
        lambda path: list(Bitext.open(path)),
        lambda: [
            {"b.tsv": b"a b\tc d\ne\tf\n"},
            {"b.jsonl": b'{"source": "a", "target": "b"}\n{"source": "c", "target": ""}'},
        ],
    ),
    "word alignment": Reader(parse_links, _with_codecs("links.txt", "0-0 1-2\n\n3-1 0-1\n")),
    "vectors, fastText": Reader(_look_up, lambda: [{"v.bin": FastTextFile().content()}]),
    "vectors, word2vec": Reader(_look_up, _word2vec),
    "vectors, text": Reader(_look_up, _with_codecs("v.vec", "3 2\ndas 0.5 -1.25\nNew York 3e-4 7\n家 1 0\n")),
    "vectors, safetensors": Reader(_look_up, _vectors),
    "mixture": Reader(_use_mixture, _mixtures),
    "rotation": Reader(_rotate, _rotations),
    "recipe": Reader(lambda path: recipe_text(read_recipe(path)), lambda: [{"recipe.toml": RECIPE.encode()}]),
    "treebank": Reader(read_treebank, _with_codecs("t.conllu", TREE * 2)),
    "tagged words": Reader(read_columns, _with_codecs("t.tsv", "Anton B-PER\nlacht O\n\n# x\nen:Anton B-PER\n")),
    "NLI, json records": Reader(read_examples, _records),
    "GLUE": Reader(
        TASKS["sst-2"].read,
        _with_codecs("train.tsv", "sentence\tlabel\nvery good\t1\nbad\t0\n"),
    ),
    "model folder": Reader(_load_model, _models, is_folder=True),
    "marked folder": Reader(_check_folder, _marked_folders, is_folder=True),
}
"""All readers by name."""


if __name__ == "__main__":
    main()
