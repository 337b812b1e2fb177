"""The commands that follow a transfer or a training fit the model and the device, and repeat what was given."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from relexify.pretrained.architecture import usable_length
from relexify.pretrained.loading import meta_model
from relexify.reports.next_steps import NextStep, _length_below, after_training, after_transfer
from relexify.training.results.curve import Curve, Measurement
from tests import pico


@pytest.mark.parametrize("device", ["cuda:1", "cpu", "mps"])  # that of the transfer; training uses CUDA or a CPU
@pytest.mark.parametrize(
    ("has_cuda", "longest", "options", "left_out"),
    [
        (True, None, "", None),
        (True, 8_192, "", None),
        (True, 256, " --length 256", None),
        (False, None, " --steps 20 --batch 8 --length 128", "--steps 20 --batch 8 --length 128"),
        (False, 512, " --steps 20 --batch 8 --length 128", "--steps 20 --batch 8 --length 128"),
        (False, 64, " --length 64 --steps 20 --batch 8", "--steps 20 --batch 8"),
    ],
)
def test_the_next_training_is_no_longer_than_the_model_reads_and_short_on_a_cpu(
    device, has_cuda, longest, options, left_out, monkeypatch
):
    monkeypatch.setattr("torch.cuda.is_available", lambda: has_cuda)
    monkeypatch.setattr("relexify.pretrained.loading.meta_model", lambda folder: folder)
    monkeypatch.setattr("relexify.pretrained.architecture.usable_length", lambda model: longest)
    notes = {"provenance": {"command": {"corpus": "sw.txt", "device": device}}}
    _, step = after_transfer(Path("sw"), notes)
    assert step.commands == [f"relexify train sw sw-trained --corpus sw.txt{options}"]
    title = f"Try a short training; on a GPU, leave out {left_out}:" if left_out else "Train it:"
    assert step.sentence() == title


@pytest.mark.parametrize("keeps_source", [True, False])
def test_the_next_training_has_the_texts_of_both_languages_if_both_are_kept(keeps_source, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("relexify.pretrained.loading.meta_model", lambda folder: folder)
    monkeypatch.setattr("relexify.pretrained.architecture.usable_length", lambda model: None)
    texts = {"corpus": ["a.txt", "b.txt"], "held_out": "h.txt", "source_corpus": "en.txt", "source_held_out": "eh.txt"}
    notes = {"provenance": {"command": {**texts, "keep_source": keeps_source}}}
    _, step = after_transfer(Path("x/both"), notes, name=Path("both"))
    source = " --source-corpus en.txt --source-held-out eh.txt" if keeps_source else ""
    texts = f"--corpus a.txt --corpus b.txt --held-out h.txt{source}"
    assert step.commands == [f"relexify train both both-trained {texts}"]


MADE = {"model": "gpt2", "corpus": ["a.txt", "b.txt"], "dictionary": "d.tsv", "method": "blend", "device": "cpu"}


@pytest.mark.parametrize(
    ("command", "changes", "action", "again"),
    [
        (
            {"dictionary_swapped": True, "vectors": {"width": 50}},
            {"dictionary": None},
            "repair the dictionary, or transfer without it",
            "--method blend --set vectors.width=50",
        ),
        (
            {"method": "wechsel", "seed": 3},
            {"method": "blend"},
            "repair the evidence, or transfer it with the method blend",
            "--dictionary d.tsv --seed 3 --method blend",
        ),
        (
            {"method": "focus", "keep_source": True, "added_tokens": 20, "options": {"x": "y"}},
            {"method": "fvt"},
            "repair the evidence, or transfer it with the method fvt",
            "--dictionary d.tsv --added-tokens 20 --keep-source --method fvt --set 'x=\"y\"'",
        ),
        (
            {"vocab_size": 300},
            {"vocab_size": "32000"},
            "transfer it with a larger vocabulary",
            "--dictionary d.tsv --vocab-size 32000 --method blend",
        ),
        (  # with a donor that the method does not use, the vocabulary is trained all the same
            {"vocab_size": 300, "donor": "bert"},
            {"vocab_size": "32000"},
            "transfer it with a larger vocabulary",
            "--dictionary d.tsv --donor bert --vocab-size 32000 --method blend",
        ),
    ],
)
def test_after_a_poor_start_the_transfer_is_repeated_with_what_the_verdict_changes_before_it_is_trained(
    command, changes, action, again, monkeypatch
):
    monkeypatch.setattr("relexify.pretrained.loading.meta_model", lambda folder: folder)
    monkeypatch.setattr("relexify.pretrained.architecture.usable_length", lambda model: None)
    notes = {
        "provenance": {"command": {**MADE, **command}},
        "verdict": {"start": "poor", "finding": "", "changes": changes},
    }
    first, then, last = after_transfer(Path("x/sw"), notes, name=Path("sw"))
    sentence = then.sentence()
    assert sentence.startswith(("Then train it", "Then try a short training")), "its folder does not exist before"
    assert first == NextStep(action, [f"relexify transfer gpt2 sw-2 --corpus a.txt --corpus b.txt {again}"])
    assert first.sentence("Next,") == f"Next, {action}:"
    (training,) = then.commands
    assert training.startswith("relexify train sw-2 sw-2-trained --corpus a.txt --corpus b.txt")
    assert last == NextStep("see what its tokens are made from", ["relexify inspect sw"])


@pytest.mark.parametrize("family", ["gpt2", "llama tied", "roberta", "t5"])
def test_the_length_of_a_model_is_the_same_whether_or_not_its_config_tells_enough(family, tmp_path):
    folder = pico.saved(family, tmp_path / family)
    longest = usable_length(meta_model(folder))
    limits = [1, *([] if longest is None else [longest - 1, longest, longest + 1]), 4096]
    for limit in limits:
        expected = longest if longest is not None and longest < limit else None
        assert _length_below(folder, limit) == expected


def test_where_no_transfer_is_needed_the_model_itself_is_trained_or_pruned(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("relexify.pretrained.loading.meta_model", lambda folder: folder)
    monkeypatch.setattr("relexify.pretrained.architecture.usable_length", lambda model: None)
    verdict = {"start": "poor", "finding": "", "changes": {}, "is_needed": False}
    first, training, pruning = after_transfer(
        Path("x/en"), {"provenance": {"command": MADE}, "verdict": verdict}, name=Path("en")
    )
    assert first.sentence("Next,") == "Next, use gpt2 without a transfer."
    assert first.commands == ()
    assert training.commands == ["relexify train gpt2 en-trained --corpus a.txt --corpus b.txt"]
    assert pruning.sentence() == "Or remove the tokens that the text does not have:"
    assert pruning.commands == ["relexify prune gpt2 en-pruned --corpus a.txt --corpus b.txt"]


@pytest.mark.parametrize(
    ("command", "changes"),
    [
        ({}, {}),
        ({"tokenizer": "small"}, {"vocab_size": "32000"}),
        ({"donor": "small", "method": "clp"}, {"vocab_size": "32000"}),
    ],
)
def test_no_command_is_proposed_that_would_repeat_what_the_verdict_found(command, changes):
    notes = {
        "provenance": {"command": {**MADE, **command}},
        "verdict": {"start": "poor", "finding": "", "changes": changes},
    }
    first, last = after_transfer(Path("sw"), notes)
    assert first == NextStep("repair what was found before you transfer it again")
    assert first.sentence("Next,") == "Next, repair what was found before you transfer it again."
    assert last == NextStep("see what its tokens are made from", ["relexify inspect sw"])


@pytest.mark.parametrize(
    ("command", "longest", "options"),
    [
        ({}, None, "--method blend --method fvt"),
        ({"method": "wechsel"}, 64, "--method wechsel --method blend --method fvt --length 64 --steps 40"),
        (
            {"keep_source": True, "added_tokens": 20},
            512,
            "--set keep_source=true --set added_tokens=20 --method blend --method fvt",
        ),
    ],
)
def test_after_an_open_start_few_methods_are_tried_with_the_same_evidence(command, longest, options, monkeypatch):
    monkeypatch.setattr("relexify.pretrained.loading.meta_model", lambda folder: folder)
    monkeypatch.setattr("relexify.pretrained.architecture.usable_length", lambda model: longest)
    notes = {"provenance": {"command": {**MADE, **command}}, "verdict": {"start": "open", "finding": ""}}
    _, advice, training = after_transfer(Path("sw"), notes)
    assert advice.action == "see in short trainings which method learns faster, with and without the dictionary"
    texts = "--corpus a.txt --corpus b.txt"
    assert advice.commands == [f"relexify advise gpt2 {texts} --dictionary d.tsv {options} --output sw-advice"]
    (command,) = training.commands
    assert command.startswith(f"relexify train sw sw-trained {texts}")


def notes_of(**changes: object) -> dict[str, object]:
    command = {"corpus": ["sw.txt"], "held_out": ["h.txt"], "options": {"steps": 20, "held_out_bytes": 2_000}}
    training = {"stages": [], "snapshots": [], "learning_rate": 0.01, "selected_step": 20, "command": command}
    return json.loads(json.dumps({"trained_from": "sw", "training": {**training, **changes}}))


AGAIN = "--corpus sw.txt --held-out h.txt --steps"


@pytest.mark.parametrize(
    ("scores", "changes", "title", "command"),
    [
        ((3, 2, 1), {}, "for longer, from the start:", f"train sw out-80 {AGAIN} 80 --set held_out_bytes=2000"),
        (
            (3, 2, 1),
            {"schedule": "cosine"},
            "from the start, because the learning rate falls until the last step:",
            f"train sw out-80 {AGAIN} 80 --set held_out_bytes=2000",
        ),
        ((3, 1, 2), {}, "fewer steps:", f"train sw out-10 {AGAIN} 10 --set held_out_bytes=2000"),
        ((1, 2, 3), {}, "rate:", f"train sw out-slower {AGAIN} 20 --set held_out_bytes=2000 --learning-rate 2.5e-03"),
        ((2, 1, 1), {}, "held-out text:", "evaluate out --held-out h.txt"),
        ((3, 2, 1), {"stages": [{}]}, "train it for longer: change the steps of its stages.", None),
        ((1, 2, 3), {"stages": [{}]}, "held-out text:", "evaluate out --held-out h.txt"),
        ((3, 1, 2), {"stages": [{}]}, "or for fewer steps: change the steps of its stages.", None),
        ((3, 1, 2), {"snapshots": [15]}, "for fewer steps: leave out the snapshots from step 10 on.", None),
        ((3, 2, 1), {"command": None}, "Next, train it further.", None),
        ((2, 1, 1), {"command": None}, "Next, check that it is intact:", "check out"),
    ],
)
def test_the_command_after_a_training_repeats_it_with_what_the_verdict_asks_for(scores, changes, title, command):
    curve = Curve.of(Measurement(10 * index, 10_000 * index, "all", bits, 2.0) for index, bits in enumerate(scores))
    first, *_ = after_training(Path("out"), notes_of(**changes), curve)
    assert first.sentence("Next,").endswith(title)
    assert list(first.commands[:1]) == ([] if command is None else [f"relexify {command}"])


@pytest.mark.parametrize("has_cuda", [True, False])
@pytest.mark.parametrize(("longest", "length"), [(None, ""), (64, " --length 64")])
def test_after_a_training_of_few_tokens_the_default_one_is_measured_and_run(has_cuda, longest, length, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: has_cuda)
    monkeypatch.setattr("relexify.pretrained.loading.meta_model", lambda folder: folder)
    monkeypatch.setattr("relexify.pretrained.architecture.usable_length", lambda model: longest)
    curve = Curve.of(Measurement(10 * index, 100 * index, "all", bits, 2.0) for index, bits in enumerate((3, 2, 1)))
    measuring, training = after_training(Path("out"), notes_of(), curve)
    assert measuring == NextStep(
        "see how long the default training takes here", [f"relexify estimate out{length} --measure"]
    )
    end = "" if has_cuda else "; these are made for a GPU"
    assert training.sentence() == f"Train it with the default steps, batch and length, from the start{end}:"
    texts = "--corpus sw.txt --held-out h.txt --set held_out_bytes=2000"
    assert training.commands == [f"relexify train sw out-1000 {texts}{length}"]
    further = {name: note for name, note in notes_of().items() if name != "trained_from"}
    assert "train out out-1000" in after_training(Path("out"), further, curve)[1].commands[0]
    (bilingual,) = after_training(Path("out"), notes_of(), curve, languages=["en", "sw"])
    assert bilingual.commands == training.commands, "a model of two languages cannot be measured"


def test_a_model_whose_start_was_not_kept_is_trained_further():
    curve = Curve.of(Measurement(10 * index, 10_000 * index, "all", bits, 2.0) for index, bits in enumerate((3, 2, 1)))
    notes = {name: note for name, note in notes_of().items() if name != "trained_from"}
    assert after_training(Path("out"), notes, curve) == [
        NextStep("train it further", [f"relexify train out out-80 {AGAIN} 80 --set held_out_bytes=2000"])
    ]


def test_the_command_after_a_training_with_a_new_head_adds_it_again():
    curve = Curve.of(Measurement(10 * index, 10_000 * index, "all", bits, 2.0) for index, bits in enumerate((3, 2, 1)))
    (step,) = after_training(Path("out"), notes_of() | {"head_added_to": "sw"}, curve)
    assert step.commands[0].startswith("relexify train sw out-80 --add-head --corpus sw.txt")
    (step,) = after_training(Path("out"), notes_of() | {"head_added_to": "bare"}, curve)
    assert "--add-head" not in step.commands[0], "the head was added before another training"


def test_after_a_training_on_another_language_no_longer_one_is_proposed():
    text = {"bytes": 1_000, "words": 200, "unit": "word", "source_tokens": 400, "target_tokens": 250, "origins": {}}
    notes = {**notes_of(), "method": "fvt", "graft": {"origins": {}}, "held_out_text": text}

    def action(tokens_per_byte: float) -> str:
        bits = enumerate((3, 2, 1))
        scores = (
            Measurement(10 * index, 10_000 * index, "all", each, 2.0 ** (each / tokens_per_byte))
            for index, each in bits
        )
        return after_training(Path("out"), notes, Curve.of(scores))[0].action

    assert action(0.5) == "train it on text in the language of the transfer"
    assert action(0.3).startswith("train it for longer")
