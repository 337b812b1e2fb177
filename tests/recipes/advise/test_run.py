"""Advice: which methods are tried, and what is measured of the evidence."""

from __future__ import annotations

import gzip
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from relexify.errors import EvidenceError, InputError
from relexify.evidence.bitext import Bitext, WordAlignmentOptions
from relexify.evidence.evidence import Evidence
from relexify.evidence.lexicon import BilingualLexicon
from relexify.evidence.vectors import WordVectors
from relexify.methods.fvt import fvt
from relexify.methods.inputs import Inputs
from relexify.methods.parts.translations import translations
from relexify.methods.registry import METHODS
from relexify.pretrained.tokenizers import train_tokenizer
from relexify.progress import report_to
from relexify.recipes.advise import evidence as evidence_module
from relexify.recipes.advise import run as run_module
from relexify.recipes.advise.evidence import held_out_words, measure_evidence, split_dictionary
from relexify.recipes.advise.options import Advise, planned_runs
from relexify.recipes.advise.run import run_advise
from relexify.recipes.advise.summary import summarise_advice
from relexify.recipes.file.comparison import Run
from relexify.recipes.file.recipe import read_recipe
from relexify.systems.transfer.options import Transfer
from relexify.text import Corpus
from relexify.tokens import vocabulary_of
from tests import pico

TOKENIZER = pico.byte_level(size=500)
WORDS = sorted({word for line in pico.sentences(50) for word in line.split() if word.isalpha() and word.islower()})


def advise(**evidence):
    return Advise(Transfer("model", Path("out"), "text.txt", **evidence))


@pytest.fixture
def inputs(monkeypatch):
    """One language on both sides, whose dictionary translates every word with itself."""
    monkeypatch.setattr(evidence_module, "FEWEST_HELD_OUT_WORDS", 5)
    monkeypatch.setattr(evidence_module, "HELD_OUT_SHARE", 2)
    evidence = Evidence(
        corpus=Corpus.from_lines(pico.sentences()),
        held_out=Corpus.from_lines([]),
        lexicon=BilingualLexicon(tuple((word, word) for word in WORDS)),
    )
    rows = np.random.default_rng(0).normal(size=(len(TOKENIZER), 16)).astype(np.float32)
    return Inputs(TOKENIZER, TOKENIZER, evidence, read_embedding=lambda: rows)


def test_methods_that_the_evidence_suffices_for_are_tried_beside_a_baseline():
    names = {run.name for run in planned_runs(advise())}
    assert {"blend", "fvt", "focus", "wechsel", "random"} <= names
    assert not names & {"ramen", "trans-tokens", "omp", "clp", "trelm", "token-distillation", "given-rows", "shuffle"}
    assert {"ramen", "trans-tokens"} <= {run.name for run in planned_runs(advise(bitext="pairs.tsv"))}


def test_the_default_is_also_tried_without_each_kind_of_translations():
    runs = planned_runs(advise(dictionary=Path("dictionary.tsv"), bitext="pairs.tsv"))
    left_out = {run.name: run.without for run in runs if run.without}
    assert left_out == {"blend-without-dictionary": ("dictionary",), "blend-without-bitext": ("bitext",)}


def test_a_method_that_was_named_must_have_its_evidence():
    transfer = advise().transfer
    assert [run.name for run in planned_runs(Advise(transfer, methods=("fvt", "random")))] == ["fvt", "random"]
    with pytest.raises(InputError, match="needs parallel text"):
        planned_runs(Advise(transfer, methods=("ramen",)))
    with pytest.raises(InputError, match="there is no method"):
        Advise(transfer, methods=("fft",))


@pytest.mark.usefixtures("cache")
def test_methods_that_cannot_be_built_are_left_out_unless_they_were_named(tmp_path, monkeypatch):
    words = ["".join(chr(ord("а") + ord(letter) - ord("a")) for letter in word) for word in WORDS]  # Cyrillic
    (tmp_path / "text.txt").write_text("\n".join(pico.sentences(300, words=words)))
    (tmp_path / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in zip(WORDS, words, strict=True)))
    transfer = Transfer(
        str(pico.saved("gpt2", tmp_path / "gpt2")),
        tmp_path / "out",
        str(tmp_path / "text.txt"),
        dictionary=tmp_path / "pairs.tsv",
        vocab_size=330,
        held_out_bytes=500,
    )
    with pytest.raises(EvidenceError, match="no word alike"):
        run_advise(Advise(transfer, methods=("ramen-vectors",)))
    assert not transfer.output.exists()
    tried = [Run(name, name) for name in ("ramen-vectors", "fvt", "random")]
    monkeypatch.setattr(run_module, "planned_runs", lambda _: tried)
    advice = run_advise(Advise(transfer, steps=1, batch=1, length=16))
    assert {run.name for run in advice.runs} == {"fvt", "random"}
    assert list(advice.left_out) == ["ramen-vectors"]
    table, reason, *_ = summarise_advice(advice)
    assert table.rows[-1][:2] == ["–", "ramen-vectors"]
    assert reason.startswith("Left out: ramen-vectors (the two languages write no word alike")
    # They differ in their rows alone: all have a prior, which fvt and random would not add by themselves.
    assert read_recipe(transfer.output / "recipe.toml").tables["transfer"].unigram_prior


@pytest.mark.usefixtures("cache")
def test_without_steps_held_out_words_rank_the_methods_and_nothing_is_trained(tmp_path, monkeypatch):
    monkeypatch.setattr(evidence_module, "HELD_OUT_SHARE", 2)
    text = "".join(f"{line}\n" for line in pico.sentences(300))
    (tmp_path / "text.txt.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "pairs.tsv").write_text("".join(f"{word}\t{word}\n" for word in WORDS))
    transfer = Transfer(
        str(pico.saved("gpt2", tmp_path / "gpt2")),
        tmp_path / "out",
        str(tmp_path / "text.txt.gz"),
        dictionary=tmp_path / "pairs.tsv",
        vocab_size=500,
        held_out_bytes=500,
    )
    options = Advise(transfer, methods=("shuffle", "fvt", "blend"), steps=0)
    assert not any(run.without for run in planned_runs(options))
    advice = run_advise(options)
    found = [run.held_out_words for run in advice.runs]
    assert found == sorted(found, reverse=True)
    assert found[0] > 0.9  # words after a space are copies of their own translations
    assert advice.best == "blend"
    assert advice.corpus_bytes == len(text.encode())
    assert {run.after for run in advice.runs} == {None}
    assert not transfer.output.exists()
    table, verdict, *_ = summarise_advice(advice)
    assert table.title.startswith("Held-out words")
    assert table.rows[0] == ["rank", "method", "held-out words"]
    assert all(len(row) == 3 for row in table.rows)
    assert verdict.startswith("Use blend. fvt is level with it. Nothing was trained")
    with pytest.raises(InputError, match="there is none: give a `dictionary`"):
        replace(options, transfer=replace(transfer, dictionary=None))
    monkeypatch.setattr(evidence_module, "FEWEST_HELD_OUT_WORDS", 1_000)
    with pytest.raises(EvidenceError, match="words of the dictionary can be held out"):
        run_advise(options)
    (tmp_path / "pairs.tsv").write_text("".join(f"{word}\t{word}\n" for word in WORDS[:10]))
    monkeypatch.setattr(run_module, "load_model", None)  # so few words are rejected before anything else is done
    with pytest.raises(EvidenceError, match="words of the dictionary can be held out"):
        run_advise(options)


def test_parallel_text_that_aligns_nothing_is_worth_nothing(inputs, tmp_path):
    (tmp_path / "pairs.tsv").write_text("river\triver\n")
    (tmp_path / "links.txt").write_text("0-0\n")
    evidence = replace(
        inputs.evidence,
        bitext=Bitext.open(tmp_path / "pairs.tsv"),
        links=tmp_path / "links.txt",
        aligning=WordAlignmentOptions(min_count=5),
    )
    counts = np.ones(len(TOKENIZER), np.int64)
    assert measure_evidence(replace(inputs, evidence=evidence), counts).aligned_share == 0


def test_rows_of_held_out_words_are_compared_with_their_translations(inputs, caplog):
    tasks = []

    @contextmanager
    def reporter(description, total=None):
        tasks.append((description, total))
        yield lambda amount, status="": None

    with report_to(reporter), caplog.at_level("INFO", "relexify"):
        found = held_out_words(dict.fromkeys(("fvt", "shuffle"), inputs))
    assert tasks[0] == ("placing held-out words", 2)
    assert "building every method again without" in caplog.text
    assert found["fvt"] > 0.9  # words after a space are copies of their own translations
    assert 0.2 < found["shuffle"] < 0.8
    assert held_out_words({}) == {}


def test_held_out_words_are_compared_without_the_mean_row_and_without_words_that_are_known(inputs, monkeypatch):
    monkeypatch.setattr(evidence_module, "HELD_OUT_SHARE", 3)
    listed = [*WORDS, *map(str.capitalize, WORDS)]
    meanings = [f"{WORDS[index % len(WORDS)]} {WORDS[7 * index % len(WORDS)]}" for index in range(1, len(listed) + 1)]
    lexicon = BilingualLexicon(tuple(zip(meanings, listed, strict=True)))
    rows = inputs.embedding + 20  # trained rows have much in common
    rows = np.concatenate([rows, np.full((5, 16), 1e3, np.float32)])  # and may be padded
    inputs = replace(inputs, evidence=replace(inputs.evidence, lexicon=lexicon), read_embedding=lambda: rows)
    kept, held = (translations(TOKENIZER, TOKENIZER, part) for part in split_dictionary(inputs.evidence.lexicon))
    assert (kept.known & held.known).any(), "a word with a capital may be known although it is held out without one"
    tokens = [id for id in range(len(TOKENIZER)) if held.known[id] and not kept.known[id]]
    centred = rows[: len(TOKENIZER)] - rows[: len(TOKENIZER)].mean(axis=0)
    expected = held.weights.toarray() @ centred
    offsets = np.random.default_rng(inputs.seed).integers(1, len(tokens), (len(tokens), 50))

    def cosine(one, other):
        return one @ other / np.linalg.norm(one) / np.linalg.norm(other)

    margins = np.array(
        [
            cosine(centred[id], expected[id]) - cosine(centred[id], expected[tokens[(index + offset) % len(tokens)]])
            for index, id in enumerate(tokens)
            for offset in offsets[index]
        ]
    )
    # A word after a space and at the start of a text has the same meaning, up to rounding: such pairs count half.
    share = ((margins > 1e-6) + 0.5 * (np.abs(margins) <= 1e-6)).mean()
    assert held_out_words({"fvt": inputs})["fvt"] == pytest.approx(share, abs=0.005)


def test_rows_from_a_file_are_compared_as_the_same_rows_of_a_mixture_are(inputs, tmp_path):
    rows = inputs.embedding + 20
    inputs = replace(inputs, read_embedding=lambda: rows, target=pico.byte_level(pico.sentences(40), size=480))
    tokens = vocabulary_of(inputs.target).tokens
    mixed = WordVectors(list(tokens), fvt(inputs.source, inputs.target).apply(rows))
    evidence = replace(inputs.evidence, target_vectors=mixed.save(tmp_path / "rows.safetensors"))
    inputs = replace(inputs, evidence=evidence)
    given = replace(inputs, options=METHODS["given-rows"].options())
    found = held_out_words({"fvt": inputs, "given-rows": given})
    assert found["fvt"] > 0.6
    assert found["given-rows"] == pytest.approx(found["fvt"], abs=0.01)


@pytest.mark.parametrize(("words", "space"), [(["हिन्दी", "किताब", "नदी"], " "), (["东京", "首都", "学生"], "")])
def test_words_with_marks_and_of_scripts_without_spaces_are_words(inputs, words, space):
    lines = [space.join([*words, word]) for word in words for _ in range(20)] + [space + word for word in words] * 50
    target = train_tokenizer(Corpus.from_lines(lines), like=TOKENIZER, vocab_size=500)
    counts = np.zeros(len(target), np.int64)
    counts[[id for word in words for id in target.encode(space + word)]] = 1
    worth = measure_evidence(replace(inputs, target=target), counts)
    assert max(worth.frequent_words.values()) == 1


def test_a_word_is_held_out_with_all_its_entries():
    lexicon = BilingualLexicon(tuple((f"{word}{index}", word) for word in WORDS for index in range(3)))
    kept, held = split_dictionary(lexicon)
    assert len(kept) + len(held) == len(lexicon)
    assert not set(kept.target_words) & set(held.target_words)
    assert held.pairs


def test_the_share_of_the_text_that_growing_dictionaries_translate_is_counted(inputs):
    vocabulary = vocabulary_of(TOKENIZER)
    counts = np.ones(len(vocabulary), np.int64)
    worth = measure_evidence(inputs, counts)
    assert [size.entries for size in worth.dictionary] == sorted(size.entries for size in worth.dictionary)
    assert worth.dictionary[-1].entries == len(WORDS)
    known = [id for id, form in enumerate(vocabulary.forms) if form.text.lower() in WORDS and not form.is_special]
    assert worth.dictionary[-1].text_share == pytest.approx(len(known) / len(vocabulary), rel=0.1)
    assert worth.aligned_share is None
    ((number, share),) = worth.frequent_words.items()  # the vocabulary has fewer words than the smallest size
    assert len(WORDS) <= number < 500
    assert share == pytest.approx(number / len(vocabulary))
