"""relexify transfer from end to end, on tiny real models."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForSeq2SeqLM, AutoTokenizer

from relexify.methods.registry import METHODS
from relexify.mixture import MIXTURE_FILE, Mixture, Origin
from relexify.storage.checksums import checksums
from relexify.storage.files import write_folder
from tests import pico
from tests.cli.command import relexify
from tests.cli.conftest import SIZE
from tests.training.runs import assert_same_bits

AUTO = {"gpt2": AutoModelForCausalLM, "bert": AutoModelForMaskedLM, "t5": AutoModelForSeq2SeqLM}


def test_output_loads_with_auto_classes_and_computes(world, transferred):
    folder, _ = transferred
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    ids = tokenizer(world.corpus.read_text()[:100], return_tensors="pt").input_ids
    assert len(tokenizer) == SIZE == model.config.vocab_size
    assert torch.isfinite(model(ids).logits).all()


def test_summary_is_on_stdout_and_everything_else_on_stderr(transferred):
    folder, outcome = transferred
    for word in ("special", "copied", "mixed: weighted mean of", "the tokens that spell it", "no evidence"):
        assert word in outcome.out
    for word in (
        "bits per byte",
        "random",
        "shuffle",
        "blend",
        f"relexify inspect {folder}",
        f"relexify train {folder} {folder}-trained --corpus",
    ):
        assert word in outcome.out
    # The model reads 64 tokens, which the default length exceeds.
    short = ("--length 64 --steps 20 --batch 8", "--length 64")
    assert outcome.out.rstrip().endswith(short[torch.cuda.is_available()])
    assert not [line for line in outcome.err.splitlines() if not line.startswith("· ")]


def test_summary_and_provenance_are_saved_with_the_model(transferred):
    notes = json.loads((transferred[0] / "relexify.json").read_text())
    assert set(notes["bits_per_byte_before_training"]) == {"original", "random", "shuffle", "blend"}
    assert notes["alignment"] is None  # beside a dictionary, the default aligns no vectors
    assert {"corpus", "dictionary", "source_vectors", "target_vectors"} <= set(notes["provenance"]["inputs"])


def test_commands_after_poor_and_open_starts_run_as_they_are_printed(world, tmp_path):
    useless = tmp_path / "useless.tsv"
    useless.write_text("".join(f"{line.split()[0]}\tzzzz\n" for line in world.dictionary.read_text().splitlines()))
    held_out = tmp_path / "held.txt"  # one line in 100 would be too little for a verdict
    held_out.write_text("".join(world.corpus.read_text().splitlines(keepends=True)[:60]))
    text = (*world.text, "--held-out", held_out)
    outcome = relexify("transfer", world.gpt2, tmp_path / "out", *text, "--dictionary", useless)
    assert "This is a poor start." in outcome.out
    again, trained, _ = re.findall(r"^  relexify (.*)$", outcome.out, re.MULTILINE)
    assert "--dictionary" not in again
    assert trained.startswith(f"train {tmp_path / 'out-2'} ")
    second = relexify(*shlex.split(again))
    assert second.status == 0, second.err
    assert (tmp_path / "out-2" / "config.json").is_file()
    few = tmp_path / "few.tsv"
    few.write_text("".join(world.dictionary.read_text().splitlines(keepends=True)[:1]))
    outcome = relexify("transfer", world.gpt2, tmp_path / "small", *text, "--dictionary", few)
    assert "Open: the tests do not show whether this is a good start." in outcome.out, outcome.out
    _, advice, _ = re.findall(r"^  relexify (.*)$", outcome.out, re.MULTILINE)
    tried = relexify(*shlex.split(advice), "--steps", 1, "--batch", 2)
    assert tried.status == 0, tried.err
    assert "blend-without-dictionary" in tried.out


OWN_TESTS = {"donor", "model", "token vectors"}
"""Inputs of methods that are transferred in the tests of these methods."""


@pytest.mark.parametrize(
    "method",
    [name for name in METHODS if name not in ("blend", "trelm") and not OWN_TESTS & set(METHODS[name].needs)],
)
def test_every_method_gives_a_model_that_loads(method, world, tmp_path):
    if "bitext" in METHODS[method].needs:
        pytest.importorskip("eflomal", reason="the extra 'alignment' is not installed")
    evidence = world.vectors if METHODS[method].takes("vectors") else ()
    evidence = ("--bitext", world.bitext) if "bitext" in METHODS[method].needs else evidence
    outcome = relexify("transfer", world.gpt2, tmp_path / "out", *world.text, *evidence, "--method", method)
    assert outcome.status == 0, outcome.err
    assert method in outcome.out
    assert ("word pairs used" in outcome.out) == METHODS[method].takes("vectors")
    assert Mixture.load(tmp_path / "out" / "mixture.safetensors").method == method
    AutoModelForCausalLM.from_pretrained(tmp_path / "out")


@pytest.mark.parametrize("family", ["bert", "t5"])
def test_encoders_and_encoder_decoders_are_transferred_and_scored(family, world, tmp_path):
    outcome = relexify("transfer", getattr(world, family), tmp_path / "out", *world.text, *world.vectors)
    assert outcome.status == 0, outcome.err
    assert "bits per byte" in outcome.out
    AUTO[family].from_pretrained(tmp_path / "out")
    assert len(AutoTokenizer.from_pretrained(tmp_path / "out")) > 50


def test_second_run_reuses_tokenizer_mixture_and_scores_and_gives_the_same_bytes(world, tmp_path, cache):
    # Text alone, so that every step is made here: tokenizer, both vectors, and identical words for a dictionary.
    text = tmp_path / "new.txt"
    text.write_text(world.corpus.read_text() + world.source_corpus.read_text()[:8000])
    options = ("--corpus", text, "--vocab-size", SIZE, "--source-corpus", world.source_corpus)
    first = relexify("transfer", world.gpt2, tmp_path / "a", *options)
    kept = {path: path.stat().st_mtime_ns for path in cache.rglob("*")}
    second = relexify("transfer", world.gpt2, tmp_path / "b", *options)
    assert first.status == second.status == 0, first.err
    assert "using the cached" not in first.err
    assert second.err.count("using the cached") == 7, "tokenizer, mixture, prior and the scores of four models"
    assert {path: path.stat().st_mtime_ns for path in cache.rglob("*")} == kept
    assert "words that both languages write alike" in first.err
    for name in ("model.safetensors", "tokenizer.json"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name


def test_a_corrupt_step_in_the_cache_is_rebuilt(world, tmp_path, cache):
    options = (*world.text, "--method", "fvt", "--set", "score=false")
    assert relexify("transfer", world.gpt2, tmp_path / "a", *options).status == 0
    (kept,) = cache.rglob("tokenizer.json")
    kept.write_text("{")
    again = relexify("transfer", world.gpt2, tmp_path / "b", *options)
    assert again.status == 0, again.err
    assert "is corrupt; rebuilding it" in again.err
    assert (tmp_path / "a" / "tokenizer.json").read_bytes() == (tmp_path / "b" / "tokenizer.json").read_bytes()


@pytest.mark.parametrize("sealed", [False, True], ids=["damaged", "written with its checksum"])
def test_a_cached_mixture_with_nan_is_rebuilt_and_the_model_is_not_blamed(world, tmp_path, cache, sealed):
    options = (*world.text, *world.vectors, "--method", "wechsel", "--set", "score=false")
    assert relexify("transfer", world.gpt2, tmp_path / "a", *options).status == 0
    (kept,) = (path for path in cache.rglob(MIXTURE_FILE))
    arrays = {name: array.copy() for name, array in load_file(kept).items()}
    (weights,) = (name for name, array in arrays.items() if array.dtype.kind == "f")
    arrays[weights][0] = np.nan
    with safe_open(kept, "np") as stream:
        metadata = stream.metadata()
    save_file(arrays, kept, metadata)
    if sealed:
        entry = kept.with_name("entry.json")
        recorded = json.loads(entry.read_text())
        recorded["files"] = {name: found for name, found in checksums(kept.parent).items() if name in recorded["files"]}
        entry.write_text(json.dumps(recorded))
    again = relexify("transfer", world.gpt2, tmp_path / "b", *options)
    assert again.status == 0, again.err
    assert "is corrupt; rebuilding it" in again.err
    assert_same_bits(tmp_path / "a", tmp_path / "b")
    assert "corrupt" not in relexify("transfer", world.gpt2, tmp_path / "c", *options).err


def test_without_any_source_evidence_the_embedding_replaces_vectors(world, tmp_path):
    options = ("--target-vectors", world.target_vectors, "--dictionary", world.dictionary, "--set", "score=false")
    outcome = relexify("transfer", world.gpt2, tmp_path / "out", *world.text, *options, "--method", "wechsel")
    assert outcome.status == 0, outcome.err
    assert "· warning: neither vectors nor text" in outcome.err
    assert "warning" not in outcome.out
    assert "word pairs used" in outcome.out
    assert json.loads((tmp_path / "out" / "relexify.json").read_text())["alignment"]["pairs_used"] > 30
    assert "bits per byte" not in outcome.out


def test_vectors_that_nothing_aligns_are_used_in_the_target_language_with_a_warning(world, tmp_path):
    options = ("--target-vectors", world.target_vectors, "--set", "score=false")
    outcome = relexify("transfer", world.gpt2, tmp_path / "out", *world.text, *options)
    assert outcome.status == 0, outcome.err
    assert "continuing without aligned vectors" in outcome.err
    mixture = Mixture.load(tmp_path / "out" / "mixture.safetensors")
    assert mixture.method == "blend"
    assert (mixture.origin == Origin.MIXED).any()


def test_a_given_tokenizer_is_taken_as_it_is(world, tmp_path, cache):
    lines = world.corpus.read_text().splitlines()
    pico.byte_level(lines, 350).save_pretrained(tmp_path / "tokenizer")
    options = (
        "--corpus",
        world.corpus,
        "--tokenizer",
        tmp_path / "tokenizer",
        "--method",
        "fvt",
        "--set",
        "score=false",
    )
    outcome = relexify("transfer", world.gpt2, tmp_path / "out", *options)
    assert outcome.status == 0, outcome.err
    given, written = (AutoTokenizer.from_pretrained(tmp_path / name) for name in ("tokenizer", "out"))
    assert given.get_vocab() == written.get_vocab()
    assert not list(cache.iterdir())


def test_an_override_copies_the_row_it_names(world, tmp_path):
    options = (*world.text, "--method", "fvt", "--set", "overrides.ra=river", "--set", "score=false")
    outcome = relexify("transfer", world.gpt2, tmp_path / "out", *options)
    assert outcome.status == 0, outcome.err
    shown = relexify("inspect", tmp_path / "out", "ra").out
    assert "river" in shown
    assert "1.000" in shown


def test_held_out_text_may_be_given_for_a_small_corpus(world, tmp_path):
    small, held_out, lines = tmp_path / "small.txt", tmp_path / "held.txt", world.corpus.read_text().splitlines()
    small.write_text("\n".join(lines[:30]))
    held_out.write_text("\n".join(lines[30:]))
    options = ("--corpus", small, "--vocab-size", 300, "--method", "fvt", "--held-out", held_out)
    assert relexify("transfer", world.gpt2, tmp_path / "out", *options).status == 0


def test_overwrite_replaces_the_folder_and_leaves_nothing_beside_it(world, tmp_path):
    with write_folder(tmp_path / "out") as folder:
        (folder / "old").touch()
    options = (*world.text, "--method", "random", "--set", "score=false", "--overwrite")
    assert relexify("transfer", world.gpt2, tmp_path / "out", *options).status == 0
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert not (tmp_path / "out" / "old").exists()


def test_overwrite_keeps_notes_that_the_user_put_into_the_folder(world, tmp_path):
    options = (*world.text, "--method", "random", "--set", "score=false", "--overwrite")
    assert relexify("transfer", world.gpt2, tmp_path / "out", *options).status == 0
    assert relexify("transfer", world.gpt2, tmp_path / "out", *options).status == 0
    (tmp_path / "out" / "my-notes.txt").write_text("dear")
    outcome = relexify("transfer", world.gpt2, tmp_path / "out", *options)
    assert outcome.status == 2
    assert "my-notes.txt" in outcome.err
    assert (tmp_path / "out" / "my-notes.txt").read_text() == "dear"


@pytest.mark.parametrize("moved", ["model", "corpus", "held-out", "dictionary", "tokenizer"])
def test_inputs_inside_the_output_are_rejected_and_stay(world, tmp_path, moved):
    given = {"model": world.gpt2, "corpus": world.corpus, "held-out": world.corpus, "dictionary": world.dictionary}
    given["tokenizer"] = world.gpt2
    with write_folder(tmp_path / "out") as folder:
        copy = shutil.copytree if given[moved].is_dir() else shutil.copyfile
        copy(given[moved], folder / given[moved].name)
    given[moved] = tmp_path / "out" / given[moved].name
    options = [part for name, path in given.items() if name != "model" for part in (f"--{name}", path)]
    outcome = relexify("transfer", given["model"], tmp_path / "out", *options, "--set", "score=false", "--overwrite")
    assert outcome.status == 2
    assert "choose another output" in outcome.err
    assert given[moved].exists()


def test_evidence_that_a_method_ignores_is_reported(world, tmp_path):
    options = (*world.text, "--method", "fvt", "--set", "score=false", "--dictionary", world.dictionary)
    outcome = relexify("transfer", world.gpt2, tmp_path / "out", *options)
    assert "the method fvt makes no use of --dictionary" in outcome.err
    quiet = relexify(
        "transfer", world.gpt2, tmp_path / "quiet", *world.text, "--method", "fvt", "--set", "score=false", "-q"
    )
    assert quiet.status == 0
    assert not quiet.err
    assert "copied" in quiet.out


def test_parallel_text_translates_words_and_its_alignment_is_computed_once(world, tmp_path, cache):
    pytest.importorskip("eflomal", reason="the extra 'alignment' is not installed")
    evidence = (*world.text, "--bitext", world.bitext, "--set", "score=false")
    first = relexify("transfer", world.gpt2, tmp_path / "a", *evidence, "--method", "ramen")
    assert first.status == 0, first.err
    assert "using the cached" not in first.err
    kept = {path: path.stat().st_mtime_ns for path in (cache / "alignments").rglob("*")}
    again = relexify("transfer", world.gpt2, tmp_path / "b", *evidence, "--method", "ramen")
    other = relexify("transfer", world.gpt2, tmp_path / "c", *evidence, "--method", "trans-tokens")
    assert again.status == other.status == 0, other.err
    assert "using the cached mixture" in again.err
    assert "using the cached alignments" in other.err
    assert {path: path.stat().st_mtime_ns for path in (cache / "alignments").rglob("*")} == kept
    files = [(tmp_path / name / "mixture.safetensors") for name in ("a", "b")]
    assert (Mixture.load(files[0]).weights != Mixture.load(files[1]).weights).nnz == 0
    notes = json.loads((tmp_path / "a" / "relexify.json").read_text())
    assert "bitext" in notes["provenance"]["inputs"]
    assert notes["provenance"]["command"]["aligning"]["symmetrisation"] == "grow-diag-final-and"


def test_a_ready_alignment_needs_no_aligner_and_enters_provenance(world, tmp_path):
    lines = world.bitext.read_text().splitlines()
    first = AutoTokenizer.from_pretrained(world.gpt2)
    (tmp_path / "links.txt").write_text("0-0\n" * len(lines))
    options = (
        "--bitext",
        world.bitext,
        "--set",
        f"alignment={tmp_path / 'links.txt'}",
        "--set",
        "score=false",
        "--method",
        "ramen",
    )
    outcome = relexify("transfer", world.gpt2, tmp_path / "out", *world.text, *options)
    assert outcome.status == 0, outcome.err
    mixture = Mixture.load(tmp_path / "out" / "mixture.safetensors")
    new = AutoTokenizer.from_pretrained(tmp_path / "out")
    english, foreign = lines[0].split("\t")
    sources = dict(mixture.sources(new(foreign).input_ids[0]))
    assert first.convert_ids_to_tokens(first(english).input_ids[0]) in sources
    assert "alignment" in json.loads((tmp_path / "out" / "relexify.json").read_text())["provenance"]["inputs"]


def test_swapped_parallel_text_is_reported(world, tmp_path):
    swapped = tmp_path / "swapped.tsv"
    pairs = [line.split("\t") for line in world.bitext.read_text().splitlines()]
    swapped.write_text("".join(f"{b}\t{a}\n" for a, b in pairs))
    (tmp_path / "links.txt").write_text("0-0\n" * len(pairs))
    options = ("--set", f"alignment={tmp_path / 'links.txt'}", "--set", "score=false", "--method", "ramen")
    warned = relexify("transfer", world.gpt2, tmp_path / "a", *world.text, "--bitext", swapped, *options)
    plain = relexify("transfer", world.gpt2, tmp_path / "b", *world.text, "--bitext", world.bitext, *options)
    assert warned.status == plain.status == 0, warned.err
    assert "seems to have the target language first" in warned.err
    assert "seems to have the target language first" not in plain.err


def test_a_blend_takes_parallel_text_as_one_more_part(world, tmp_path):
    lines = world.bitext.read_text().splitlines()
    (tmp_path / "links.txt").write_text("0-0\n" * len(lines))
    bitext = ("--bitext", world.bitext, "--set", f"alignment={tmp_path / 'links.txt'}")
    for name, more in (("without", ()), ("with", bitext)):
        outcome = relexify(
            "transfer", world.gpt2, tmp_path / name, *world.text, *world.vectors, *more, "--set", "score=false"
        )
        assert outcome.status == 0, outcome.err
    made = [Mixture.load(tmp_path / name / "mixture.safetensors") for name in ("without", "with")]
    assert (made[0].weights != made[1].weights).nnz > 0, "it is not the kept mixture of the first run"


def test_a_poor_start_is_not_to_be_trained(world, tmp_path):
    shown = relexify("transfer", world.gpt2, tmp_path / "out", *world.text, "--method", "random")
    assert "Next, repair the evidence, or transfer it with the method blend" in " ".join(shown.out.split())
    assert "relexify inspect" in shown.out
    assert f"relexify train {tmp_path / 'out'} " not in shown.out


def test_a_training_recalls_that_its_transfer_was_a_poor_start(world, transferred, tmp_path):
    relexify("transfer", world.gpt2, tmp_path / "random", *world.text, "--method", "random", "--set", "score=false")
    short = ("--corpus", world.corpus, "--steps", 1, "--batch", 2, "--length", 16, "--set", "report_to=[]")
    recalled = "The transfer that it started from was a poor start. random uses no evidence"
    for source, is_poor in ((tmp_path / "random", True), (transferred[0], False)):
        output = tmp_path / f"{source.name}-trained"
        outcome = relexify("train", source, output, *short)
        assert outcome.status == 0, outcome.err
        assert (recalled in " ".join(outcome.out.split())) == is_poor
        page = re.sub(r"</?b>|</?span[^>]*>", "", (output / "report.html").read_text())
        assert page.count(recalled) == is_poor


def test_text_in_a_file_whose_name_is_not_utf_8_is_used(world, tmp_path):
    text, output = tmp_path / os.fsdecode(b"sw\xff.txt"), tmp_path / "out"
    shutil.copy(world.corpus, text)
    options = ("--corpus", text, "--vocab-size", SIZE, "--method", "fvt", "--set", "score=false")
    outcome = relexify("transfer", world.gpt2, output, *options)
    assert outcome.status == 0, outcome.err
    assert "warning" not in outcome.err
    assert (output / "report.html").is_file()
    assert relexify("inspect", output).status == 0
    assert relexify("check", output).status == 0
