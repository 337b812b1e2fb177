"""The commands of all pages run in their order, on tiny models and texts."""

from __future__ import annotations

import gzip
import json
import lzma
import random
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

from relexify.cli.app import app
from relexify.evidence.vectors import WordVectors
from relexify.recipes.file.named import shipped_recipes
from tests import pico
from tests.cli.command import relexify
from tests.evidence.vectors.fasttext_file import FastTextFile
from tests.pages import PAGES, commands, name_of

COMMANDS: Any = typer.main.get_command(app)
TRAINING = ("--steps", "2", "--batch", "4", "--length", "16", "--set", "report_to=[]")
SHORT = {
    "transfer": ("--vocab-size", "400", "--set", "held_out_bytes=500"),
    "train": TRAINING,
    "bilingual": TRAINING,
    "align": ("--overwrite",),
    "geometry": ("--overwrite",),
    "advise": (
        *("--method", "fvt", "--vocab-size", "400", "--set", "held_out_bytes=500", "--overwrite"),
        *("--steps", "1", "--batch", "2", "--length", "16"),
    ),
    "run": ("--set", "model=gpt2", "--set", "transfer.vocab_size=400", "--set", "training.length=16"),
    "trelm": tuple(
        word
        for phase in ("commonality", "transfer", "specific")
        for key in ("steps=1", "batch=2", "length=32", "report_to=[]")
        for word in ("--set", f"{phase}.{key}")
    ),
    "vectors train": ("--width", "8", "--set", "epochs=1", "--set", "minimum_count=1"),
    "estimate": ("--length", "16"),
}
"""Options that replace those of the page, by verb: there is little text, and no time."""
SHORT_TASKS = ("--seeds", "1", "--set", "epochs=1")
OUTPUT = {"bilingual": 3, "export": 3, "compress": 2, "expand": 2, "prune": 2, "train": 2, "transfer": 2, "trelm": 2}
"""Position of the folder that a verb writes."""
MEANT = {
    "smollm2-135m": "gpt2",
    "MODEL": "gpt2",
    "OUTPUT": "output",
    "DICTIONARY": "en-sw.tsv",
    "ENGLISH": "english.txt",
    "HELD": "held.txt",
    "N": "20",
    "PLAN": "direct",
    "RECIPE": "recipe.toml",
    "KEY=VALUE": "training.steps=2",
    "NAME": "wechsel-gpt2",
    "TABLE": "training",
    "--corpus TEXT": "swahili.txt",
    "--held-out TEXT": "held.txt",
    "--source-corpus TEXT": "english.txt",
    "--dictionary FILE": "en-sw.tsv",
    "--bitext FILE": "news.tsv",
    "--bitext en-sw.tsv": "news.tsv",
    "--bitext en-sw.mafand.train.tsv.xz": "news.tsv",
    "train TEXT": "swahili.txt",
    "en.tsv": "nli/train.tsv",
    "en.dev.tsv": "nli/dev.tsv",
    "sw.tsv": "nli/test.tsv",
    "fr.tsv": "nli/test.tsv",
    "en-both.tsv": "en-sw.tsv",
    "overrides.shule=school": "overrides.shule=teacher",
    "-o FILE": "vectors.safetensors",
    "nearest FILE": "vectors.safetensors",
    "word": "shule",
}
"""What stands for a placeholder, alone or after another word."""
MEANT_ON_PAGE = {
    "bilingual.md": {"SOURCE": "bert-base-cased", "TARGET": "bert-sw-1", "LANGUAGE": "target", "FOLDER": "exported"},
    "evaluation.md": {"MODEL": "bert-base-cased"},
    "results/advice.md": {"--dictionary swahili.txt": "en-sw.tsv", "en6.txt": "english.txt"},
    "results/extension.md": {"--dictionary swahili.txt": "en-sw.tsv"},
    "results/encoders.md": {"MODEL": "gpt2-swahili-trained", "GRAFTED": "gpt2-swahili"},
    "results/sub-embeddings.md": {"all-minilm-l6-v2": "bert-base-cased"},
    "results/trelm.md": {
        "OUTPUT": "bert-de",
        "all-minilm-l6-v2": "bert-base-cased",
        "--word music": "river",
        "--vectors en.safetensors": "cc.en.300.bin",
    },
    "methods.md": {"--rank 400": "8"},
    "compression.md": {"--rank 200": "8", "--set rank=200": "rank=8"},
    "summary.md": {
        "OUTPUT": "gpt2-swahili",
        "WORD": "shule",
        "TRAINED": "gpt2-swahili-trained",
        "transfer smollm2-135m": "gpt2",
    },
    "papers.md": {
        "GRAFTED": "gpt2-swahili",
        "TRAINED": "gpt2-swahili-trained",
        "OUTPUT": "gpt2-swahili",
        "COMPRESSED": "gpt2-swahili",
        "bert-base-multilingual-cased": "bert-base-cased",
        "roberta-base": "roberta-medium",
        "--word genes": "river",
    },
    "training.md": {"evaluate MODEL": "bert-base-cased"},
    "trelm.md": {"--word genes": "river", "OUTPUT": "bert-de"},
}
INSTEAD = {
    "evaluate MODEL --task ner --data FOLDER --seeds 3": "evaluate bert-swahili --task ner --data wikiann/sw",
    "evaluate MODEL --task nli --probe --data FOLDER": "evaluate bert-swahili --task nli --probe --data nli",
    "grid RECIPE.toml --nli TRAIN TEST --pos TRAIN TEST": "grid recipe.toml --set model=bert-base-cased "
    "--set transfer.method=wechsel --set transfer.source_vectors=en.vec --set transfer.target_vectors=sw.vec "
    "--set transfer.dictionary=en-sw.tsv --set transfer.vocab_size=300 --neighbours 1 --temperatures 0.1 "
    "--nli nli/train.tsv nli/test.tsv --pos wikiann/sw/train wikiann/sw/test",
}
"""What is run instead of a command whose placeholders depend on each other."""
NOT_RUN = {
    r"^demo$": "needs minutes and the packaged model; tests/recipes/test_demo.py runs it with a tiny one",
    r"^push ": "needs the Hub; tests/reports/test_push.py pushes to a stand-in",
    r"\bhf:": "needs the Hub",
    rf"^(run|compare|grid) ({'|'.join(shipped_recipes())})\b(?! --set corpus)": "needs the data of a recipe",
    r"^(run|compare) mine\.toml": "needs a recipe that the reader has written",
    r"…(?!$)|--[a-z]+ …$|--task parse …": "is a part of a command",
    r"=(unsupervised|adversarial)|--unsupervised": "finds no map in little text; tests/cli/verbs/evidence does",
    r"--measure": "measures a GPU",
    r"--task roles": "needs columns of CoNLL-2009; tests/evaluation/parsing/test_roles.py reads some",
}
"""Commands that are only parsed, by tests/test_docs.py, and why."""


def missing_arguments(words: list[str]) -> list[str]:
    """Return the required arguments and options that a command lacks: a sentence may name a verb alone."""
    command, rest = COMMANDS, list(words)
    while hasattr(command, "commands"):
        if not rest:
            return ["verb"]
        command, rest = command.commands[rest[0]], rest[1:]
    parser = command.make_parser(command.make_context("relexify", [], resilient_parsing=True))
    try:
        given = parser.parse_args(rest)[0]
    except Exception:
        return ["value"]
    return [entry.name for entry in command.params if entry.required and given.get(entry.name) in (None, (), [])]


def runnable(page: Path) -> list[list[str]]:
    """Return the complete commands of a page that can be run here; those with placeholders come last."""
    found = []
    for words in commands(page):
        line = " ".join(words)
        if any(re.search(pattern, line) for pattern in NOT_RUN) or missing_arguments(words):
            continue
        if words[-1] == "…":
            words.pop()
        found.append(words)
    distinct = [words for index, words in enumerate(found) if words not in found[:index]]
    return sorted(distinct, key=lambda words: any(re.fullmatch(r"[A-Z]{2,}", word) for word in words))


def filled(words: list[str], page: Path) -> list[str]:
    """Return a command with files and numbers for its placeholders."""
    if (line := " ".join(words)) in INSTEAD:
        return INSTEAD[line].split()
    if words[0] == "advise":  # one method is enough
        words = re.sub(r" --method \S+", "", line).split()
    meant = MEANT | MEANT_ON_PAGE.get(name_of(page), {})
    pairs = zip([None, *words], words, strict=False)
    return [meant.get(f"{before} {word}", meant.get(word, word)) for before, word in pairs]


def shortened(words: list[str]) -> tuple[str, ...]:
    verb = " ".join(words[:2]) if words[0] == "vectors" else words[0]
    if verb == "evaluate" and "--task" in words and "--probe" not in words:
        return SHORT_TASKS
    if verb == "compress" and "--rank" not in words:
        return ("--set", "clusters=20")
    if verb == "transfer" and "--keep-source" in words:
        return (*SHORT[verb], "--added-tokens", "20")
    if verb == "transfer" and "trelm" in words:
        return (*SHORT[verb], "--set", "initialisation=random")
    return SHORT.get(verb, ())


@pytest.fixture(scope="module")
def material(tmp_path_factory):
    """A folder with everything that the pages name: models, texts, dictionaries, vectors and data of tasks."""
    root = tmp_path_factory.mktemp("material")
    words = sorted({word for line in pico.sentences() for word in line.lower().split() if word.isalpha()})
    draw = random.Random(1)
    swahili = ["".join(draw.choices(["sho", "mu", "ra", "ki", "te", "lo", "ba"], k=3)) for _ in words]
    swahili[::3] = words[::3]  # names and loanwords, which align vectors
    swahili[:4] = ["shule", "mtoto", "nchi", "maji"]
    for name in ("gpt2", "gpt2-xl", "gpt2-brazilian", "joint", "smollm2-uyghur"):
        pico.saved("gpt2", root / name)
    for name in ("bert-base-cased", "bert-swahili", "english", "german"):
        pico.saved("bert", root / name)
    for name in ("xlm-r", "roberta-medium"):
        pico.saved("roberta", root / name)
    pico.saved("llama untied", root / "mistralai" / "Mistral-7B-v0.1")
    pico.saved("llama tied", root / "meta-llama" / "Llama-3.1-8B")
    donor = pico.byte_level(pico.sentences(words=swahili))
    for part in (pico.gpt2(donor), donor):
        part.save_pretrained(root / "dbmdz" / "german-gpt2")
    donor.save_pretrained(root / "tokenizer")
    given = np.random.default_rng(1).standard_normal((len(donor), pico.WIDTH)).astype(np.float32)
    WordVectors(donor.convert_ids_to_tokens(range(len(donor))), given).save(root / "rows.safetensors")

    texts = {
        "swahili.txt sw.txt de.txt german.txt uyghur.txt luxembourgish.txt portugal.txt": (500, 3, swahili),
        "english.txt en.txt": (500, 4, words),
        "held.txt sw.held.txt": (50, 5, swahili),
        "held-en.txt": (50, 6, words),
        "news.en": (100, 7, words),
        "news.sw": (100, 7, swahili),
    }
    for names, (count, seed, vocabulary) in texts.items():
        for name in names.split():
            (root / name).write_text("\n".join(pico.sentences(count, seed=seed, words=vocabulary)) + "\n")
    for name, plain in (
        ("sw.txt.xz", "swahili.txt"),
        ("sw.train.txt.xz", "swahili.txt"),
        ("sw.held.txt.xz", "held.txt"),
        ("en.train.txt.xz", "english.txt"),
        ("en.held.txt.xz", "held-en.txt"),
    ):
        (root / name).write_bytes(lzma.compress((root / plain).read_bytes()))
    news = zip(*((root / name).read_text().splitlines() for name in ("news.en", "news.sw")), strict=True)
    (root / "news.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in news))
    (root / "news").mkdir()
    shutil.copy(root / "english.txt", root / "news")
    lines = "".join(json.dumps({"text": line}) + "\n" for line in pico.sentences(50, seed=8, words=words))
    (root / "books.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    for name in ("en-sw.tsv", "en-ug.tsv", "en-de.tsv", "de-lb.tsv", "100-words.tsv"):
        (root / name).write_text("".join(f"{a}\t{b}\n" for a, b in zip(words, swahili, strict=True)))

    rows = np.random.default_rng(0).standard_normal((len(words), 8)).astype(np.float32)
    for name, side in (("en", words), ("sw", swahili)):
        vectors = "".join(f"{word} {' '.join(map(str, row))}\n" for word, row in zip(side, rows, strict=True))
        (root / f"{name}.vec").write_text(f"{len(side)} {rows.shape[1]}\n{vectors}")
        (root / f"cc.{name}.300.bin").write_bytes(FastTextFile([b"</s>", *(word.encode() for word in side)]).content())
    _write_tasks(root, swahili)
    (root / "recipe.toml").write_text(
        """
output = "made"
model = "gpt2"
corpus = "swahili.txt"
[transfer]
method = "fvt"
vocab_size = 400
[training]
steps = 2
batch = 2
length = 16
report_to = []
[compare]
runs = ["fvt"]
"""
    )
    return root


def _write_tasks(root: Path, words: list[str]) -> None:
    """Write tiny data sets in the folders and files that the pages name."""
    draw = random.Random(0)

    def sentence() -> list[str]:
        return draw.choices(words, k=draw.randint(2, 5))

    def tagged() -> str:
        return "".join(f"{word}\t{draw.choice(['O', 'B-PER'])}\n" for word in sentence()) + "\n"

    def tree() -> str:
        rows = (
            f"{index}\t{word}\t_\tX\t_\t_\t{index - 1}\t{'root' if index == 1 else 'dep'}\t_\t_\n"
            for index, word in enumerate(sentence(), 1)
        )
        return "".join(rows) + "\n"

    def nli() -> str:
        return "\t".join([" ".join(sentence()), " ".join(sentence()), draw.choice(["entailment", "neutral"])]) + "\n"

    def paraphrase() -> str:
        return "\t".join([draw.choice("01"), "1", "2", " ".join(sentence()), " ".join(sentence())]) + "\n"

    for folder in ("wikiann/sw", "glue/MRPC", "nli"):
        (root / folder).mkdir(parents=True)
    for part in ("train", "dev", "test"):
        (root / "wikiann" / "sw" / part).write_text("".join(tagged() for _ in range(16)))
        (root / "nli" / f"{part}.tsv").write_text("".join(nli() for _ in range(16)))
        header = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
        (root / "glue" / "MRPC" / f"{part}.tsv").write_text(header + "".join(paraphrase() for _ in range(16)))
        for language in ("en", "de"):
            (root / f"{language}.{part}.conllu").write_text("".join(tree() for _ in range(16)))


@pytest.fixture(scope="module")
def shared_cache(tmp_path_factory):
    """One cache for all pages: many of them train the same tokenizer on the same text."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def cache(shared_cache, monkeypatch):
    monkeypatch.setenv("RELEXIFY_CACHE", str(shared_cache))
    monkeypatch.setenv("COLUMNS", "160")
    return shared_cache


@pytest.fixture(scope="module")
def started(material, shared_cache):
    """The same folder with a transferred and a trained model, which some pages start from."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RELEXIFY_CACHE", str(shared_cache))
        patch.chdir(material)
        text = ("--corpus", "swahili.txt", "--held-out", "held.txt")
        for words in (
            ("transfer", "gpt2", "gpt2-swahili", *text, "--dictionary", "en-sw.tsv", *SHORT["transfer"]),
            ("train", "gpt2-swahili", "gpt2-swahili-trained", *text, *TRAINING),
        ):
            outcome = relexify(*words)
            assert outcome.status == 0, outcome.err
    return material


@pytest.fixture
def folder(started, tmp_path, monkeypatch):
    """A copy of the material for one page."""
    shutil.copytree(started, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", [page for page in PAGES if runnable(page)], ids=name_of)
def test_the_commands_of_a_page_succeed_one_after_the_other(page, folder, capsys):
    for words in runnable(page):
        given = filled(words, page)
        printed = None
        if ">" in given:
            given, printed = given[: given.index(">")], folder / given[-1]
        if given[0] in OUTPUT and Path(given[OUTPUT[given[0]]]).is_dir():
            shutil.rmtree(given[OUTPUT[given[0]]])  # that of an alternative on the same page
        outcome = relexify(*given, *shortened(given))
        assert outcome.status == 0, f"{name_of(page)}: relexify {' '.join(words)}: {outcome.err}"
        if printed is not None:
            printed.write_text(outcome.out)
    if page.name == "tutorial.md":
        (snippet,) = re.findall(r"^```python\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        capsys.readouterr()
        exec(compile(snippet, page.name, "exec"), {})
        assert capsys.readouterr().out.startswith("Mji mkuu wa Tanzania ni")


def test_most_commands_are_run_and_every_exception_is_one_of_a_page():
    lines = [" ".join(words) for page in PAGES for words in commands(page)]
    assert [pattern for pattern in NOT_RUN if not any(re.search(pattern, line) for line in lines)] == []
    assert sum(len(runnable(page)) for page in PAGES) > 80
