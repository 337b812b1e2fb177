"""The smaller verbs, the help and the options of every verb."""

from __future__ import annotations

import io
import json
import re
import shutil

import numpy as np
import pytest
from scipy.sparse import csr_array

from relexify.evidence.alignment import Rotation
from relexify.evidence.vectors.formats.loading import load_vectors
from relexify.methods.registry import METHODS
from relexify.mixture import Mixture, Origin
from relexify.recipes.file.named import shipped_recipes
from relexify.recipes.file.recipe import read_recipe
from relexify.storage.files import write_folder
from relexify.tokens import Spelling, TokenizerFamily
from relexify.version import __version__
from tests import pico
from tests.cli.command import relexify

HELP = {
    ("transfer",): ("Give MODEL a new language", "Example:", "default: blend", "default: 32000", "--set"),
    ("vectors",): ("Train word vectors", "train", "info", "nearest"),
    ("vectors", "train"): ("default: 100", "default: counts", "--output", "--set"),
    ("vectors", "info"): ("Describe a file of word vectors",),
    ("vectors", "nearest"): ("default: 10", "most frequent"),
    ("align",): ("Procrustes", "default: source-to-target", "--reduce"),
    ("inspect",): ("mixed from", "random sample", "frequent words", "default: 5"),
    ("report",): ("report.html", "Example:"),
    ("push",): ("USER/NAME", "--private", "Example:"),
    ("check",): ("intact", "broken", "Example:"),
    ("methods",): ("initialisations",),
    ("demo",): ("invented language", "default: smollm2-135m", "default: 6"),
    (): ("swap the lexicon", "relexify demo", "--debug", "--quiet", "--version"),
}


@pytest.mark.parametrize("verb", HELP, ids=" ".join)
def test_help_shows_an_example_and_the_defaults(verb):
    outcome = relexify(*verb, "--help")
    assert outcome.status == 0
    assert not outcome.err
    assert not [word for word in HELP[verb] if word not in outcome.out]


def test_short_help_is_help():
    assert relexify("transfer", "-h").out == relexify("transfer", "--help").out


def test_help_names_arguments_as_the_usage_does_and_shows_which_options_take_a_value():
    shown = relexify("options", "--help").out
    assert "options [OPTIONS] [TABLE]" in shown
    assert "TABLE_NAME" not in shown
    assert "--processes NUMBER" in relexify("--help").out


def test_options_lists_what_set_takes_with_defaults_and_meanings():
    shown = relexify("options", "transfer").out
    assert all(word in shown for word in ("neighbours", "vectors.width", "32000", "k of WECHSEL"))
    assert "[training]" in relexify("options").out
    training = " ".join(relexify("options", "training").out.split())
    assert "One of: linear, cosine, constant, inverse_sqrt." in training
    assert "One of: adamw" not in training, "the text explains them"
    unknown = relexify("options", "transfr")
    assert unknown.status == 2
    assert "did you mean 'transfer'?" in unknown.err


def test_recipes_are_listed_and_printed_so_that_they_can_be_read_again(tmp_path, monkeypatch):
    monkeypatch.setenv("RELEXIFY_DATA", str(tmp_path))
    listed = relexify("recipes").out
    assert all(name in listed for name in shipped_recipes())
    (tmp_path / "mine.toml").write_text(relexify("recipes", "wechsel-gpt2").out)
    copied, shipped = read_recipe(tmp_path / "mine.toml"), read_recipe("wechsel-gpt2")
    assert copied.tables["training"] == shipped.tables["training"]
    assert copied.output == tmp_path / "runs" / "wechsel-gpt2"
    assert "did you mean 'wechsel-gpt2'?" in relexify("recipes", "wechsel-gpt").err


def test_the_version_is_a_result():
    assert relexify("--version").out.strip() == __version__


def test_without_a_verb_the_help_is_shown():
    outcome = relexify()
    assert outcome.status == 2
    assert "swap the lexicon" in outcome.out + outcome.err


def test_methods_lists_initialisations_with_their_evidence_and_marks_the_default():
    shown = relexify("methods").out
    for name, method in METHODS.items():
        cells = (f"{name} (default)" if name == "blend" else name, method.becomes, method.evidence)
        assert re.search(f"^{' +'.join(map(re.escape, cells))}$", shown, re.MULTILINE)


def test_methods_fit_a_terminal_of_80_columns_with_three_lines_a_cell(monkeypatch):
    from rich.console import Console

    from relexify.cli import console
    from relexify.cli.verbs.more import methods

    terminal = Console(file=io.StringIO(), force_terminal=True, width=80, color_system=None)
    monkeypatch.setattr(console, "results", terminal)
    monkeypatch.setattr(methods, "results", terminal)
    methods.methods()
    rows = re.split("[┡├└][━─┩┤┴┼╇┘]+", terminal.file.getvalue())[1:-1]
    assert len(rows) == len(METHODS)
    assert max(row.strip().count("\n") for row in rows) < 3


def test_trained_vectors_can_be_described_and_searched(world):
    info = relexify("vectors", "info", world.target_vectors)
    assert "dimensions" in info.out
    assert "16" in info.out
    assert "3 to 6 letters" in info.out
    word = load_vectors(world.target_vectors).words[5]
    nearest = relexify("vectors", "nearest", world.target_vectors, word, "--count", 3)
    assert nearest.status == 0, nearest.err
    assert word in nearest.out
    assert nearest.out.count("0.") == 3


def test_training_vectors_on_the_same_text_gives_the_same_bytes(world, tmp_path, monkeypatch):
    options = ("--width", 8, "--set", "epochs=1")
    for name in ("a", "b"):
        monkeypatch.setenv("RELEXIFY_CACHE", str(tmp_path / f"cache {name}"))
        trained = relexify("vectors", "train", world.corpus, "-o", tmp_path / f"{name}.safetensors", *options)
        assert trained.status == 0, trained.err
        assert "× 8" in trained.out
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()


def test_an_alignment_is_measured_and_written(world, tmp_path):
    options = ("--dictionary", world.dictionary, "-o", tmp_path / "rotation.safetensors")
    outcome = relexify("align", world.source_vectors, world.target_vectors, *options)
    assert outcome.status == 0, outcome.err
    assert "word pairs used" in outcome.out
    assert Rotation.load(tmp_path / "rotation.safetensors").matrix.shape == (16, 16)


def test_a_swapped_dictionary_aligns_when_that_is_said(world, tmp_path):
    files = (world.target_vectors, world.source_vectors, "--dictionary", world.dictionary)
    outcome = relexify("align", *files, "--swapped", "-o", tmp_path / "rotation.safetensors")
    assert outcome.status == 0, outcome.err


def test_inspect_shows_what_a_token_was_mixed_from(transferred):
    folder, _ = transferred
    outcome = relexify("inspect", folder, "ra", "--sources", 3)
    assert outcome.status == 0, outcome.err
    assert "mixed" in outcome.out
    assert "weight" in outcome.out


def test_inspect_without_a_token_shows_a_sample_that_the_seed_decides(transferred):
    folder, _ = transferred
    first, same, other = (relexify("inspect", folder, "--sample", 5, "--seed", seed).out for seed in (1, 1, 2))
    assert re.search(r"^5 random tokens of \d+ that are not copied", first)
    assert first == same != other


def test_inspect_without_a_token_groups_words_by_what_they_were_made_from(transferred):
    folder, _ = transferred
    outcome = relexify("inspect", folder)
    assert outcome.status == 0, outcome.err
    result = json.loads(relexify("inspect", folder, "--json").out)
    assert outcome.out == relexify("inspect", folder, "--seed", 3).out
    for group in result["groups"]:
        shown = len(group["shown"])
        cut = f", {shown} of them shown" if shown < group["words"] else ""
        assert f"{group['name']}: {group['words']:,} words{cut}\n" in outcome.out
        assert group["shown"] == sorted(group["shown"])
    assert [token["id"] for token in result["tokens"]] == [id for group in result["groups"] for id in group["shown"]]


def test_inspect_tells_translated_words_from_guessed_ones_by_their_weights(tmp_path):
    # A known meaning weighs three times as much as the source pieces, a guessed one a third.
    rows = {"▁shule": (0.75, 0.25), "▁shuleni": (0.25, 0.75), "▁shuka": (0, 1), "▁school": (1, 0), "▁nne": (0, 0)}
    origins = [Origin.MIXED, Origin.MIXED, Origin.PIECES, Origin.COPIED, Origin.NONE]
    weights = csr_array(np.array(list(rows.values()), np.float32))
    spelling = Spelling(TokenizerFamily.METASPACE)
    tokens = (["▁school", "▁shu"], list(rows))
    for method, first, second in (
        ("blend", "Translated by the dictionary or parallel text", "Partly guessed from similar words"),
        ("other", "Mostly from other tokens", "Partly from other tokens"),
    ):
        file = tmp_path / f"{method}.safetensors"
        Mixture(weights, np.array(origins, np.uint8), method, *tokens, spelling, spelling).save(file)
        groups = json.loads(relexify("inspect", file, "--json").out)["groups"]
        names = [first, second, "From their own spelling", "Copied", "Without evidence"]
        assert [(group["name"], group["shown"]) for group in groups] == [(name, [id]) for id, name in enumerate(names)]
        assert re.search(r"^' shule' +' school' 0.75 +' shu' 0.25$", relexify("inspect", file).out, re.MULTILINE)
        named = relexify("inspect", file, "shule", "shuleni", "school")
        evidence = ("translation", "similar word") if method == "blend" else ("other token", "other token")
        for weight, kind in zip(("0.750", "0.250"), evidence, strict=True):
            assert re.search(rf"' school' +{weight} +{kind}", named.out)
        assert len(re.findall(r"' shu' +0.\d+ +spelling", named.out)) == 2
        assert re.search(r"' school' +1.000 +copy", named.out)
        shown = json.loads(relexify("inspect", file, "shule", "--json").out)["tokens"][0]["sources"]
        assert [source["from"] for source in shown] == [evidence[0], "spelling"]


def test_inspect_writes_a_part_of_a_character_in_the_same_way_everywhere(tmp_path):
    spelling = Spelling(TokenizerFamily.BYTE_LEVEL)
    weights, file = csr_array(np.array([[1.0]], np.float32)), tmp_path / "bytes.safetensors"
    Mixture(weights, np.array([Origin.PIECES], np.uint8), "blend", ["Û"], ["Ġshu"], spelling, spelling).save(file)
    for command in ((file,), (file, "shu")):
        shown = relexify("inspect", *command).out
        assert "'\\xdb'" in shown
        assert "\\\\xdb" not in shown


def test_inspect_says_where_the_list_of_sources_is_cut_and_what_the_others_weigh(transferred):
    folder, _ = transferred
    (token,) = json.loads(relexify("inspect", folder, "--sample", 1, "--sources", 1000, "--json").out)["tokens"]
    weights = [source["weight"] for source in token["sources"]]
    assert len(weights) > 1
    cut = relexify("inspect", folder, "--sample", 1, "--sources", 1).out
    others = f"{len(weights) - 1} other{'s' if len(weights) > 2 else ''} {sum(weights[1:]):.2f}"
    assert others in cut
    assert "The heaviest source token is listed; --sources N lists more." in cut
    assert "lists more" not in relexify("inspect", folder, "--sample", 1, "--sources", 1000).out


def test_inspect_reads_a_mixture_file_as_it_reads_its_folder(transferred):
    folder, _ = transferred
    assert relexify("inspect", folder, "ra").out == relexify("inspect", folder / "mixture.safetensors", "ra").out


def test_debug_may_stand_anywhere_and_shows_the_traceback(tmp_path):
    arguments = ("inspect", tmp_path)
    for command in ((*arguments, "--debug"), ("--debug", *arguments)):
        outcome = relexify(*command)
        assert outcome.status == 2
        assert "Traceback (most recent call last)" in outcome.err
        assert "error: " in outcome.err.splitlines()[-1]
    assert "Traceback" not in relexify(*arguments).err


def test_vectors_of_tokens_are_found_by_their_spelling(tmp_path):
    lines = pico.sentences(60)
    tokenizer = pico.wordpiece(lines, size=200)
    tokenizer.save_pretrained(tmp_path / "joint")
    for name, text in (("one", lines[:30]), ("two", lines[30:])):
        (tmp_path / f"{name}.txt").write_text("\n".join(text))
    options = ("--output", tmp_path / "tokens.safetensors", "--tokenizer", tmp_path / "joint", "--width", 8)
    outcome = relexify("vectors", "train", tmp_path / "one.txt", tmp_path / "two.txt", *options)
    assert outcome.status == 0, outcome.err
    vectors = load_vectors(tmp_path / "tokens.safetensors")
    assert vectors.width == 8
    assert set(vectors.words) <= tokenizer.get_vocab().keys()
    assert any(word.startswith("##") for word in vectors.words)


def test_a_file_that_is_an_input_is_never_the_output(world, tmp_path):
    corpus, vectors = tmp_path / "copy.txt", tmp_path / "copy.safetensors"
    shutil.copyfile(world.corpus, corpus)
    shutil.copyfile(world.source_vectors, vectors)
    commands = [
        ("vectors", "train", corpus, "-o", corpus),
        ("align", vectors, world.target_vectors, "-o", vectors),
        ("align", vectors, vectors, "-o", vectors),
    ]
    for command in commands:
        outcome = relexify(*command, "--overwrite")
        assert outcome.status == 2
        assert "choose another output" in outcome.err
    assert corpus.read_bytes() == world.corpus.read_bytes()
    assert vectors.read_bytes() == world.source_vectors.read_bytes()


@pytest.mark.parametrize("verb", [("train", "--corpus", "TEXT", "--steps", 1), ("compress",), ("expand",)])
def test_a_model_is_never_overwritten_by_its_own_output(world, tmp_path, verb):
    with write_folder(tmp_path / "model") as folder:
        shutil.copytree(world.gpt2, folder, dirs_exist_ok=True)
    name, *options = (world.corpus if part == "TEXT" else part for part in verb)
    outcome = relexify(name, tmp_path / "model", tmp_path / "model", *options, "--overwrite")
    assert outcome.status == 2
    assert "choose another output" in outcome.err
