"""Invalid input is reported in one sentence, and nothing is written."""

from __future__ import annotations

import gzip
import json
import shutil
import socketserver
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from relexify.cli.app import _explain
from relexify.storage.files import write_folder
from tests import pico
from tests.cli.command import assert_error, relexify
from tests.evidence.vectors.fasttext_file import FastTextFile

FVT = ("--method", "fvt", "--set", "score=false")
CORRUPT = FastTextFile(entries=1_000_000)
VECTOR_FILES = {
    "truncated .bin": (FastTextFile().content()[:-100], "download it again"),
    "header cut short": (FastTextFile().content()[:20], "header"),
    "corrupt .bin": (CORRUPT.content(), "damaged"),
    "quantised .bin": (FastTextFile(quantised=True).content(), "quantised"),
    "wrong count in the header of a .vec": (b"5 2\nhaus 1 2\ntree 3 4\n", "5"),
    "NaN in a .vec": (b"2 2\nhaus 1 nan\ntree 3 4\n", "line 2"),
    "row of another width in a .vec": (b"2 3\nhaus 1 2 3\ntree 3 4\n", "line 3"),
    "empty file": (b"", "empty"),
    "a pickle": (b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00.", ""),
}
DICTIONARIES = {
    "empty": (b"", "no pairs"),
    "one-sided": (b"house\ntree\nriver\n", "line"),
    "latin-1": ("house\thäuser\nriver\tfl\xfcsse\n".encode("latin-1"), "not UTF-8"),
    "of other languages": (b"foo\tbar\n", "none of the 1 entries"),
}
CORPORA = {
    "zero bytes": (b"", "0 bytes"),
    "blank lines": (b"\n\n  \n", "blank"),
    "UTF-16": ("šo mü ra\n".encode("utf-16"), "UTF-16"),
    "latin-1": ("mü ra\n".encode("latin-1"), "not UTF-8"),
    "PDF": (b"%PDF-1.7\n\x00\xff\n", "is a PDF: convert it to text, for example with pdftotext"),
    "PDF without NUL": (b"%PDF-1.7\n%\xe2\xe3\n", "is a PDF: convert it to text, for example with pdftotext"),
    "too small to hold out": (b"one line\n", "--held-out"),
}
OPTIONS = {
    "unknown method": (("--method", "magic"), "there is no method 'magic'", "blend"),
    "override without =": (("--set", "overrides=ra"), "overrides is the text 'ra'", "a table"),
    "override of an unknown token": (
        ("--method", "fvt", "--set", "overrides.zzzzz=river"),
        "'zzzzz'",
        "target",
    ),
    "override by a token that is not there": (("--method", "fvt", "--set", "overrides.ra=zzzzz"), "'zzzzz'", "source"),
    "override of a method without any": (("--method", "random", "--set", "overrides.ra=river"), "takes no overrides"),
    "vocabulary too small": (("--vocab-size", 20), "20 tokens is too small"),
    "vocabulary of no tokens": (("--vocab-size", 0), "--vocab-size 0 is not possible: give some thousand"),
    "temperature 0": (("--set", "temperature=0"), "--set temperature=0", "above 0"),
    "neighbours 0": (("--set", "neighbours=0"), "--set neighbours=0", "1 or more"),
    "negative seed": (("--seed", -1), "--seed -1"),
    "padding to nothing": (("--set", "pad_to_multiple_of=0"), "--set pad_to_multiple_of=0"),
    "vocabulary of billions": (("--vocab-size", 10**9), f"--vocab-size {10**9}", "or less"),
    "number that no computer holds": (
        ("--set", f"neighbours={10**20}"),
        f"neighbours is the number {10**20}",
        "64 bits",
    ),
    "seed that numpy rejects": (("--seed", 2**64), f"--seed {2**64}", "or less"),
    "padding to billions": (("--set", f"pad_to_multiple_of={10**9}"), "pad_to_multiple_of", "or less"),
    "device that computes nothing": (("--device", "meta"), "meta", "cpu"),
    "no such device": (("--device", "toaster"), "toaster", "cpu"),
    "dictionary that is not there": (("--dictionary", "nowhere.tsv"), "nowhere.tsv does not exist"),
    "number that is none": (("--set", "neighbours=ten"), "--set neighbours is the text 'ten'", "a whole number"),
    "option that is repeated": (("--method", "fvt", "--method", "blend"), "--method is given 2 times", "one value"),
    "tokens that nothing adds": (("--added-tokens", 500), "--added-tokens", "--keep-source"),
    "setting without a value": (("--set", "vocab_size"), "write vocab_size=VALUE"),
    "setting of another verb": (("--set", "training.steps=5"), "--set training.steps is for the table [training]"),
    "unknown option": (("--neighbors", 5), "No such option", "--help"),
    "option of other verbs": (("--patience", 5), "--patience is an option of train, bilingual, but not of"),
    "training by the wrong verb": (("--steps", 5), "--steps is not an option of", "a transfer trains nothing"),
    "argument too many": (("text.txt",), "takes MODEL OUTPUT, and 'text.txt' is one too many", "--corpus FILE"),
}


@pytest.mark.parametrize("name", VECTOR_FILES)
def test_unreadable_vectors(name, tmp_path, rejects):
    content, word = VECTOR_FILES[name]
    file = tmp_path / ("vectors.bin" if ".vec" not in name else "vectors.vec")
    file.write_bytes(content)
    rejects(("vectors", "info", file), str(file), word)


def test_unreadable_vectors_stop_a_transfer_before_it_trains_others(world, tmp_path, rejects, cache):
    file = tmp_path / "vectors.bin"
    file.write_bytes(FastTextFile().content()[:-100])
    options = (*world.text, "--source-vectors", file, "--dictionary", world.dictionary, "--method", "wechsel")
    rejects(("transfer", world.gpt2, tmp_path / "out", *options), str(file))
    assert not (cache / "vectors").exists()


def test_an_option_that_other_verbs_have_is_answered_with_what_to_do_instead(tmp_path, rejects):
    rejects(
        ("evaluate", "gpt2", "--corpus", "text.txt"), "--corpus is not an option of", "relexify evaluate", "--held-out"
    )
    start = ("train", "gpt2", tmp_path / "out", "--corpus", "text.txt")
    rejects((*start, "--epochs", 3), "--epochs is not an option of", "relexify train", "--steps")
    rejects((*start, "--device", "cpu"), "--device is not an option of", "relexify train", "CUDA_VISIBLE_DEVICES=")
    rejects(("check", "gpt2", "--set", "seed=1"), "--set is an option of transfer, advise,", "but not of")
    vectors = relexify("vectors", "train", "text.txt", "-o", tmp_path / "v", "--epochs", 3).err
    assert "write --set epochs=N" in vectors
    assert "--steps" not in vectors


HUGE = {
    "steps": (("train", "MODEL", "OUT", "--corpus", "TEXT", "--steps", 10**10), "--steps 10000000000", "or less"),
    "steps of more than 64 bits": (
        ("train", "MODEL", "OUT", "--corpus", "TEXT", "--steps", 10**20),
        "--steps 1000000",
        "or less",
    ),
    "batch": (("train", "MODEL", "OUT", "--corpus", "TEXT", "--batch", 10**9), "--batch 1000000000", "or less"),
    "length": (("train", "MODEL", "OUT", "--corpus", "TEXT", "--length", 10**9), "--length 1000000000", "or less"),
    "seed of a training": (
        ("train", "MODEL", "OUT", "--corpus", "TEXT", "--seed", 2**64),
        "--seed 18446744073709551616",
        "or less",
    ),
    "seed of a compression": (("compress", "MODEL", "OUT", "--seed", 2**64), "--seed 18446744073709551616", "or less"),
    "tables": (("compress", "MODEL", "OUT", "--k", 10**12), "--k 1000000000000", "or less"),
    "width of vectors": (("vectors", "train", "TEXT", "-o", "OUT", "--width", 10**9), "--width 1000000000", "or less"),
    "number of seeds": (("evaluate", "MODEL", "--task", "nli", "--data", "OUT", "--seeds", 10**12), "--seeds", "10000"),
    "seed of vectors": (("vectors", "train", "TEXT", "-o", "OUT", "--seed", 2**64), "seed", "or less"),
}


@pytest.mark.parametrize("name", HUGE)
def test_huge_numbers_are_rejected_before_memory_is_allocated_for_them(name, world, tmp_path, rejects):
    command, *words = HUGE[name]
    places = {"MODEL": world.gpt2, "TEXT": world.corpus, "OUT": tmp_path / "out"}
    rejects(tuple(places.get(word, word) for word in command), *words)


def test_messages_are_short_and_show_names_as_they_are():
    assert ":smile:/x" in relexify("vectors", "info", ":smile:/x").err
    long = relexify("vectors", "info", f"nowhere/{'x' * 100}/" * 50)
    assert long.status == 2
    assert len(long.err) < 1_100


def test_empty_arguments_do_not_stand_for_the_current_folder(world, tmp_path, rejects, monkeypatch):
    monkeypatch.chdir(world.corpus.parent)  # with text and a dictionary
    rejects(("vectors", "train", "", "-o", tmp_path / "x"), "an argument is empty")
    rejects(
        ("transfer", world.gpt2, tmp_path / "out", *world.text, "--dictionary="), "the value of --dictionary is empty"
    )


@pytest.mark.parametrize("name", DICTIONARIES)
def test_unusable_dictionary(name, world, tmp_path, rejects):
    content, word = DICTIONARIES[name]
    file = tmp_path / "dictionary.tsv"
    file.write_bytes(content)
    files = (world.source_vectors, world.target_vectors, "--dictionary", file)
    rejects(("align", *files, "-o", tmp_path / "rotation.safetensors"), file.name, word)
    if name != "of other languages":
        rejects(("transfer", world.gpt2, tmp_path / "out", *world.text, "--dictionary", file), str(file), word)


@pytest.mark.parametrize("name", CORPORA)
def test_unusable_corpus(name, world, tmp_path, rejects):
    content, word = CORPORA[name]
    file = tmp_path / "text.txt"
    file.write_bytes(content)
    rejects(("transfer", world.gpt2, tmp_path / "out", "--corpus", file), str(file), word)


def test_a_command_line_with_a_mistake_is_completed(monkeypatch):
    monkeypatch.setenv("_RELEXIFY_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "relexify transfer out smollm2-135m text.txt --dic")
    monkeypatch.setenv("COMP_CWORD", "5")
    command = [sys.executable, "-c", "import sys; sys.argv = ['relexify']; from relexify.cli.app import main; main()"]
    assert "--dictionary" in subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()


def test_help_is_shown_whatever_else_is_wrong():
    for mistake in (("a", "b", "c"), ("out", "smollm2-135m"), ("a", "b", "--dictionary", "x", "--dictionary", "y")):
        outcome = relexify("transfer", *mistake, "--help")
        assert outcome.status == 0, outcome.err
        assert "--corpus" in outcome.out


def test_the_model_as_output(world, rejects):
    rejects(
        ("transfer", "out", "smollm2-135m", *world.text),
        "give the model first, then the output, as in",
        " smollm2-135m out",
    )


WHERE_AN_INPUT_IS = {
    "transfer, its model and text": ("transfer", "wrap/gpt2", "wrap", "--corpus", "wrap/text.txt", "--method", "fvt"),
    "transfer, its dictionary": ("transfer", "GPT2", "wrap", "--corpus", "TEXT", "--dictionary", "wrap/dictionary.tsv"),
    "vectors train": ("vectors", "train", "wrap/text.txt", "-o", "wrap/text.txt"),
    "align": ("align", "wrap/vectors", "wrap/vectors", "-o", "wrap/vectors"),
    "train": ("train", "wrap/gpt2", "wrap", "--corpus", "TEXT"),
    "train, its held-out text": ("train", "GPT2", "wrap", "--corpus", "TEXT", "--held-out", "wrap/text.txt"),
    "bilingual": ("bilingual", "GPT2", "wrap/gpt2", "wrap", "--corpus", "TEXT", "--source-corpus", "TEXT"),
    "trelm": ("trelm", "wrap/gpt2", "wrap", "--corpus", "TEXT", "--source-corpus", "TEXT", "--bitext", "PAIRS"),
    "compress": ("compress", "wrap/gpt2", "wrap"),
    "expand": ("expand", "wrap/gpt2", "wrap"),
    "prune": ("prune", "GPT2", "wrap", "--corpus", "wrap/text.txt"),
    "export": ("export", "wrap/gpt2", "xx", "wrap"),
}


@pytest.mark.parametrize("name", WHERE_AN_INPUT_IS)
def test_overwriting_never_replaces_an_input(name, world, tmp_path, monkeypatch, rejects):
    """The folder looks as if relexify wrote everything in it, so that nothing but the inputs protects it."""
    monkeypatch.chdir(tmp_path)
    with write_folder(tmp_path / "wrap") as folder:
        shutil.copytree(world.gpt2, folder / "gpt2")
        for source, copy in (
            (world.corpus, "text.txt"),
            (world.dictionary, "dictionary.tsv"),
            (world.source_vectors, "vectors"),
        ):
            shutil.copyfile(source, folder / copy)
    places = {"GPT2": world.gpt2, "TEXT": world.corpus, "PAIRS": world.bitext}
    command = tuple(places.get(word, word) for word in WHERE_AN_INPUT_IS[name])
    rejects((*command, "--overwrite"), "wrap", "choose another output")


def test_missing_corpus(world, tmp_path, rejects):
    rejects(("transfer", world.gpt2, tmp_path / "out", "--corpus", tmp_path / "nowhere.txt"), "nowhere.txt")
    rejects(("vectors", "train", tmp_path / "nowhere.txt", "-o", tmp_path / "out.safetensors"), "nowhere.txt")


@pytest.mark.parametrize("name", OPTIONS)
def test_impossible_option(name, world, tmp_path, rejects):
    options, *words = OPTIONS[name]
    command = ("transfer", world.gpt2, tmp_path / "out", *world.text, *options)
    rejects(command, *words)
    if "token" not in name:  # which are known only when the tokenizer has been trained
        rejects((*command, "--dry-run"), *words)


def test_second_dictionary_does_not_replace_the_first(world, tmp_path, rejects):
    dictionaries = ("--dictionary", tmp_path / "nowhere.tsv", "--dictionary", world.dictionary)
    rejects(("advise", world.gpt2, *world.text, *dictionaries), "--dictionary is given 2 times")
    rejects(("vectors", "train", world.corpus, "-o", tmp_path / "a", "--output", tmp_path / "b"), "--output is given")


def test_options_of_a_task_are_not_ignored_without_one(world, rejects):
    scoring = ("evaluate", world.gpt2, "--held-out", world.corpus)
    for option in (("--data", world.corpus.parent), ("--seeds", 3), ("--probe",), ("--details",)):
        rejects((*scoring, *option), f"{option[0]} is for a task", "--task")


def test_vectors_of_two_widths_need_reduce(world, tmp_path, rejects):
    narrow = tmp_path / "narrow.safetensors"
    relexify(
        "vectors", "train", world.corpus, "-o", narrow, "--width", 8, "--set", "epochs=1", "--set", "minimum_count=1"
    )
    arguments = ("align", world.source_vectors, narrow, "--dictionary", world.dictionary)
    rejects((*arguments, "-o", tmp_path / "rotation.safetensors"), "16", "8", "--reduce")
    assert relexify(*arguments, "-o", tmp_path / "rotation.safetensors", "--reduce").status == 0


def test_tokenizer_without_a_mask_token_is_rejected_for_an_encoder(world, tmp_path, rejects):
    options = ("--corpus", world.corpus, "--tokenizer", world.gpt2)
    rejects(("transfer", world.bert, tmp_path / "out", *options), "no mask token", "[MASK]")


def test_output_that_exists(world, tmp_path, rejects):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").touch()
    rejects(("transfer", world.gpt2, tmp_path / "out", *world.text), str(tmp_path / "out"), "is not replaced")
    (tmp_path / "a.safetensors").touch()
    rejects(("vectors", "train", world.corpus, "-o", tmp_path / "a.safetensors"), "a.safetensors", "--overwrite")


def test_output_where_nothing_can_be_written(world, tmp_path, rejects):
    (tmp_path / "file").touch()
    for path in (Path("/proc/relexify/out"), tmp_path / "file" / "out"):
        rejects(("transfer", world.gpt2, path, *world.text), str(path), "cannot be written")


def test_folder_without_a_model(world, tmp_path, rejects):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    out = (tmp_path / "out", *world.text, *FVT)
    rejects(("transfer", tmp_path / "empty", *out), str(tmp_path / "empty"), "holds no model")
    rejects(("transfer", tmp_path / "file", *out), "is a file")
    rejects(("transfer", tmp_path / "nowhere", *out), f"there is no folder {tmp_path / 'nowhere'}")
    rejects(("transfer", "./nowhere", *out), "there is no folder ./nowhere")


def test_model_without_a_tokenizer(world, tmp_path, rejects):
    shutil.copytree(world.gpt2, tmp_path / "model", ignore=shutil.ignore_patterns("tokenizer*"))
    for dry in ((), ("--dry-run",)):
        rejects(("transfer", tmp_path / "model", tmp_path / "out", *world.text, *FVT, *dry), "holds no tokenizer")


@pytest.fixture
def failing_hub(monkeypatch):
    """A Hub that closes every connection; returns the list of those that were opened."""
    from huggingface_hub import constants

    opened = []

    class Closing(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            opened.append(self.client_address)

    with socketserver.TCPServer(("127.0.0.1", 0), Closing) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{server.server_address[1]}")
        yield opened
        server.shutdown()
        thread.join()


def test_unknown_name_is_rejected_after_one_attempt_where_the_hub_is_out_of_reach(
    world, tmp_path, failing_hub, rejects
):
    rejects(("transfer", "nobody/nothing", tmp_path / "out", *world.text), "'nobody/nothing'", "cannot be reached")
    for verb in ("train", "transfer"):
        rejects((verb, "SmolLM2-135M", tmp_path / "out", "--corpus", world.corpus), "did you mean 'smollm2-135m'?")
    assert len(failing_hub) == 1, "the Hub was asked again, or its client retried"


@pytest.mark.parametrize("damage", ["cut short", "no safetensors", "config of another size", "config cut short"])
def test_damaged_model(damage, world, tmp_path, rejects):
    model = tmp_path / "model"
    shutil.copytree(world.gpt2, model)
    weights, config = model / "model.safetensors", model / "config.json"
    if damage == "cut short":
        weights.write_bytes(weights.read_bytes()[:-1000])
    elif damage == "no safetensors":
        weights.write_bytes(b"not a model")
    elif damage == "config cut short":
        config.write_text(config.read_text()[:50])
    else:
        config.write_text(config.read_text().replace('"n_layer": 2', '"n_layer": 3'))
    advice = "is truncated: it has" if damage == "cut short" else "check that"
    rejects(("transfer", model, tmp_path / "out", *world.text, *FVT), str(model), advice)


def test_damaged_tokenizer(world, tmp_path, rejects):
    (tmp_path / "tokenizer").mkdir()
    (tmp_path / "tokenizer" / "tokenizer.json").write_text('{"model": 1}')
    options = ("--corpus", world.corpus, "--tokenizer", tmp_path / "tokenizer")
    rejects(("transfer", world.gpt2, tmp_path / "out", *options), str(tmp_path / "tokenizer"))


@pytest.mark.parametrize(
    ("name", "value"), [("transformer.wte.weight", "nan"), ("transformer.h.1.mlp.c_fc.bias", "-inf")]
)
def test_weights_that_are_not_finite(name, value, world, tmp_path, rejects):
    model, tokenizer = pico.pair("gpt2")
    model.get_parameter(name).data[7] = float(value)
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    command = ("transfer", tmp_path / "model", tmp_path / "out", *world.text, "--method", "fvt")
    rejects(command, f"parameter {name} of", "NaN or infinite")
    rejects(("evaluate", tmp_path / "model", "--held-out", world.corpus), f"parameter {name} of", "NaN or infinite")


@pytest.mark.parametrize("damage", ["cut short", "another kind", "missing"])
def test_inspect_of_a_damaged_folder(damage, world, transferred, tmp_path, rejects):
    folder = tmp_path / "model"
    shutil.copytree(transferred[0], folder)
    mixture = folder / "mixture.safetensors"
    if damage == "cut short":
        mixture.write_bytes(mixture.read_bytes()[:-10])
    elif damage == "another kind":
        shutil.copy(world.source_vectors, mixture)
    else:
        mixture.unlink()
    rejects(("inspect", folder, "ra"), str(folder))


def test_inspect_of_a_token_that_is_not_there(transferred, rejects):
    rejects(("inspect", transferred[0], "xyzzy"), "'xyzzy' is not a token; it is split into")
    rejects(("inspect", transferred[0], "--sample", 0), "--sample")


def test_nearest_of_an_unknown_word(world, tmp_path, rejects):
    file = tmp_path / "vectors.vec"
    file.write_text("2 2\nhaus 1 2\ntree 3 4\n")
    rejects(("vectors", "nearest", file, "xyzzy"), "xyzzy", str(file))
    rejects(("vectors", "nearest", file, "haus", "--count", 0), "--count")


def test_unknown_verb():
    assert_error(relexify("transmogrify"), "transmogrify", "relexify --help")


def test_parallel_text_that_is_missing_or_damaged_is_rejected_before_any_work(world, tmp_path, rejects):
    start = ("transfer", world.gpt2, tmp_path / "out", *world.text, "--method", "ramen")
    rejects(start, "ramen needs parallel text", "--bitext")
    rejects((*start, "--bitext", tmp_path / "nowhere.tsv"), "nowhere.tsv does not exist")
    (tmp_path / "bad.tsv").write_text("one\teins\ntwo zwei\n")
    rejects((*start, "--bitext", tmp_path / "bad.tsv"), "bad.tsv, line 2, has no tab")
    (tmp_path / "links.txt").write_text("0-0\n")
    ready = ("--bitext", world.bitext, "--set", f"alignment={tmp_path / 'links.txt'}")
    rejects((*start, *ready), "links.txt has 1 lines, but the parallel text has 200")


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"),
        RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    ],
)
def test_too_little_memory_is_a_failure_in_one_sentence(error):
    message, status = _explain(error)
    assert message.startswith("there is not enough memory")
    assert status == 1


def test_a_panic_in_tokenizers_is_a_failure_in_one_sentence(world, tmp_path):
    shutil.copytree(world.gpt2, tmp_path / "model")
    file = tmp_path / "model" / "tokenizer.json"
    state = json.loads(file.read_text())
    rule = {
        "type": "Replace",
        "pattern": {"Regex": "a?"},
        "content": " a",
    }  # after it, tokenizers 0.22 fails on "hello"
    state["normalizer"] = {"type": "Sequence", "normalizers": [rule, {"type": "Lowercase"}]}
    file.write_text(json.dumps(state))
    (tmp_path / "text.txt").write_text("hello world\n" * 20)
    outcome = relexify("evaluate", tmp_path / "model", "--held-out", tmp_path / "text.txt")
    assert outcome.status == 1
    (message,) = (line for line in outcome.err.splitlines() if line.startswith("error:"))
    assert message.startswith("error: the package tokenizers failed (index out of bounds")
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize("verb", ["transfer", "train"])
def test_one_argument_of_two_is_not_taken_for_the_name_of_a_model(verb, world):
    outcome = relexify(verb, "out", "--corpus", world.corpus)
    assert_error(outcome, "takes 2 arguments, MODEL OUTPUT, and 'out' is only one of them", f"{verb} MODEL OUTPUT")
    assert "no model" not in outcome.err
    missing = relexify(verb, "--corpus", world.corpus)
    assert_error(missing, "MODEL is missing: see relexify")


def test_a_file_with_another_compression_than_its_name_says_is_announced_once(world, tmp_path):
    text = tmp_path / "text.txt"
    text.write_bytes(gzip.compress(world.corpus.read_bytes()))
    outcome = relexify("transfer", world.gpt2, tmp_path / "out", "--corpus", text, "--vocab-size", 320, *FVT)
    assert outcome.status == 0, outcome.err
    assert outcome.err.count(f"reading {text} as .gz, despite its name") == 1
