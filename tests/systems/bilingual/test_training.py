"""Two languages are trained together: half of every batch each, stopped and spread over processes as one would be."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

import relexify as rx
from relexify.errors import InputError
from relexify.pretrained.architecture import IGNORED
from relexify.pretrained.loading import load_model, load_tokenizer
from relexify.scoring import bits_per_byte
from relexify.storage.files import MARKER
from relexify.systems.bilingual.folder import BilingualBundle
from relexify.systems.bilingual.options import RAMEN
from relexify.systems.bilingual.training import check_halves, train_bilingual
from relexify.training.data.batches import Blocks, TwoTexts
from relexify.training.data.packing import pack
from relexify.training.loss.forward import loss_forward
from relexify.training.options import Training
from relexify.training.plan import plan_stages
from relexify.training.results.curve import Curve
from relexify.training.results.result import CURVE_FILE, TrainingResult
from tests import pico
from tests.processes import in_a_process, in_two_processes
from tests.training.runs import (
    HELD_OUT,
    LINES,
    TRAINING,
    Moment,
    assert_close,
    assert_curves_close,
    assert_same_bits,
    dying_at,
    save_source,
)

LANGUAGES = ("en", "de")
"""Not in the order of the alphabet, which a checkpoint's log has."""
TOGETHER = replace(TRAINING, optimiser="lookahead", lookahead_steps=3, schedule="inverse_sqrt")
NEW_LINES = pico.sentences(25, seed=5, words=pico.foreign_words())
NEW_HELD_OUT = pico.sentences(12, seed=6, words=pico.foreign_words())


@dataclass(frozen=True)
class Pair:
    """An English model, its graft, and their texts."""

    root: Path
    folder: Path

    def output(self, name: str = "out") -> Path:
        return self.folder / name

    def train(self, training: Training = TOGETHER, name: str = "out", **options: Any) -> TrainingResult:
        texts = {
            "corpus": self.root / "de.txt",
            "source_corpus": self.root / "en.txt",
            "held_out": self.root / "de.held.txt",
            "source_held_out": self.root / "en.held.txt",
            "languages": LANGUAGES,
        }
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("RELEXIFY_CACHE", str(self.root / "cache"))
            return train_bilingual(
                self.root / "source", self.root / "target", self.output(name), training=training, **(texts | options)
            )


def train_and_die(pair: Pair, moment: Moment | None, training: Training, name: str) -> None:
    """For a process of its own; without a moment it lives."""
    with dying_at(moment):
        pair.train(training, name)


@pytest.fixture(scope="module")
def root_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    @cache
    def make(family: str) -> Path:
        root = tmp_path_factory.mktemp(family)
        save_source(root / "source", family, dropout=False)
        texts = {"en": LINES, "de": NEW_LINES, "en.held": HELD_OUT, "de.held": NEW_HELD_OUT}
        for name, lines in texts.items():
            (root / f"{name}.txt").write_text("\n".join(lines))
        model, tokenizer = load_model(root / "source"), load_tokenizer(root / "source")
        target = pico.FAMILIES[family][0](pico.sentences(400, words=pico.foreign_words()))
        rx.graft(model, target, rx.methods.fvt(tokenizer, target)).save(root / "target")
        return root

    return make


@pytest.fixture
def pair_of(root_of: Callable[[str], Path], tmp_path: Path) -> Callable[[str], Pair]:
    return lambda family="gpt2": Pair(root_of(family), tmp_path)


@pytest.fixture(scope="module")
def alone(root_of: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., TrainingResult]:
    """The result of one process without interruption."""

    @cache
    def result(family: str = "gpt2", training: Training = TOGETHER) -> TrainingResult:
        return Pair(root_of(family), tmp_path_factory.mktemp("alone")).train(training)

    return result


def test_a_weight_that_is_nan_is_reported_before_text_is_packed(pair_of, monkeypatch):
    pair = pair_of()
    source, tokenizer = load_model(pair.root / "source"), load_tokenizer(pair.root / "source")
    source.transformer.h[0].ln_1.weight.data[3] = float("nan")
    source.save_pretrained(pair.output("broken"))
    tokenizer.save_pretrained(pair.output("broken"))
    monkeypatch.setattr("relexify.systems.bilingual.training.language_data", None)
    with pytest.raises(InputError, match=r"h\.0\.ln_1\.weight .* NaN"):
        train_bilingual(
            pair.output("broken"),
            pair.root / "target",
            pair.output(),
            pair.root / "de.txt",
            pair.root / "en.txt",
            TOGETHER,
        )


@pytest.mark.parametrize("family", ["gpt2", "bert"])
def test_both_languages_are_trained_and_scored_each_time(alone, family):
    result = alone(family)
    first, last = result.curve.first, result.curve.last
    assert (first.step, last.step) == (0, TOGETHER.steps)
    for point in result.curve.points:
        assert point.by_language is not None
        assert set(point.by_language) == set(LANGUAGES)
        assert point.bits_per_byte == pytest.approx(sum(point.by_language.values()) / 2)
    for language in LANGUAGES:
        assert last.by_language[language] < first.by_language[language]
    assert Curve.load(result.output / CURVE_FILE) == result.curve


@pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need a CUDA device")
@pytest.mark.parametrize("family", ["gpt2", "bert"])
def test_steps_of_both_languages_replayed_as_a_graph_are_those_launched_one_by_one(pair_of, family, caplog):
    pair, exact = pair_of(family), replace(TOGETHER, precision="float32")
    launched = pair.train(replace(exact, compile=False), "launched")
    replayed = pair.train(replace(exact, compile=True), "replayed")
    assert "cannot be recorded" not in caplog.text
    for one, other in zip(launched.curve.points, replayed.curve.points, strict=True):
        assert one.bits_per_byte == pytest.approx(other.bits_per_byte, abs=0.02)


@pytest.mark.parametrize("family", ["gpt2", "bert"])
def test_the_scores_are_those_of_the_saved_model(alone, root_of, family):
    result = alone(family)
    both, root = BilingualBundle.load(result.output), root_of(family)
    for language in LANGUAGES:
        text = (root / f"{language}.held.txt").read_text()
        score = bits_per_byte(
            both.model.for_language(language), both.tokenizers[language], text, window=TOGETHER.length
        )
        assert score.value == pytest.approx(result.curve.last.by_language[language], rel=1e-5)
    for language, folder in zip(LANGUAGES, ("source", "target"), strict=True):
        text = (root / f"{language}.held.txt").read_text()
        score = bits_per_byte(load_model(root / folder), load_tokenizer(root / folder), text, window=TOGETHER.length)
        assert score.value == pytest.approx(result.curve.first.by_language[language], rel=1e-5)


def test_training_changes_the_encoder_and_both_vocabularies_and_the_notes_say_so(alone, root_of):
    result = alone()
    both, source = BilingualBundle.load(result.output).model, load_model(root_of("gpt2") / "source")
    target = load_model(root_of("gpt2") / "target")
    for member, before in ((both.source, source), (both.target, target)):
        after = member.state_dict()
        assert all(not torch.equal(after[name], tensor) for name, tensor in before.state_dict().items())
    notes = json.loads((result.output / MARKER).read_text())
    assert notes["bilingual"]["languages"] == list(LANGUAGES)
    assert notes["training"]["optimiser"] == "lookahead"


def test_a_stage_of_embeddings_leaves_the_encoder_as_it_was(pair_of):
    result = pair_of().train(replace(TOGETHER, plan="embeddings-only", steps=4))
    both = BilingualBundle.load(result.output).model
    source = load_model(pair_of().root / "source").state_dict()
    changed = {name for name, tensor in both.source.state_dict().items() if not torch.equal(tensor, source[name])}
    assert changed == set(both.config.lexical)


@pytest.mark.parametrize("family", ["gpt2", "bert"])
def test_every_stretch_of_positions_holds_as_much_of_each_language(root_of, family, monkeypatch):
    monkeypatch.setenv("RELEXIFY_CACHE", str(root_of(family) / "cache"))
    kind = "decoder" if family == "gpt2" else "encoder"
    texts = []
    for name, folder in (("en", "source"), ("de", "target")):
        tokenizer = load_tokenizer(root_of(family) / folder)
        packed = pack(rx.Corpus.open(root_of(family) / f"{name}.txt"), tokenizer)
        texts.append(Blocks(packed, tokenizer, kind, length=16, seed=1))
    both = TwoTexts(*texts)
    whole = both.batch(list(range(8, 16)))
    for side, text in enumerate(texts):
        expected = text.batch([4, 5, 6, 7])
        for name, rows in whole.items():
            assert torch.equal(rows.chunk(2)[side], expected[name])
    parts = [both.batch(list(range(8, 12))), both.batch(list(range(12, 16)))]
    for name, rows in whole.items():
        ours, theirs = zip(*(part[name].chunk(2) for part in parts), strict=True)
        assert torch.equal(rows, torch.cat([*ours, *theirs])), "another cut sees other sequences"


@pytest.mark.parametrize("family", ["gpt2", "bert"])
def test_the_loss_is_the_sum_over_both_halves(root_of, family):
    both = BilingualBundle.join(root_of(family) / "source", root_of(family) / "target", LANGUAGES)
    tokens = torch.arange(5, 69).reshape(4, 16)
    labels = torch.where(tokens % 3 == 0, tokens, IGNORED)
    with torch.no_grad():
        expected = 0.0
        for language, half in zip(LANGUAGES, (slice(0, 2), slice(2, 4)), strict=True):
            logits = both.model(input_ids=tokens[half], language=language).logits
            expected += float(
                torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels[half].flatten(), reduction="sum")
            )
        with loss_forward(both.model):
            together = float(both.model(input_ids=tokens, labels=labels))
            parts = [
                float(both.model(input_ids=tokens[half], labels=labels[half], language=language))
                for language, half in zip(LANGUAGES, (slice(0, 2), slice(2, 4)), strict=True)
            ]
    assert together == pytest.approx(expected, rel=1e-5)
    assert sum(parts) == pytest.approx(expected, rel=1e-5)
    assert both.model(input_ids=tokens, language="en").logits.shape[:2] == tokens.shape, (
        "the forward was not given back"
    )


def test_shared_blocks_are_not_compiled_for_the_few_tokens_that_a_head_is_tried_out_on(root_of):
    from torch._dynamo.utils import counters

    root = root_of("bert")
    both = BilingualBundle.join(root / "source", root / "target", LANGUAGES)
    torch._dynamo.reset()
    counters.clear()
    with loss_forward(both.model, compiled=True):
        assert not counters["frames"], "something was compiled before the first step"


def test_micro_batches_train_the_model_that_whole_batches_train(pair_of, alone):
    result = pair_of().train(replace(TOGETHER, micro_batch=2))
    assert_close(result.output, alone().output)
    assert_curves_close(result.curve, alone().curve)


@pytest.mark.parametrize(
    ("family", "moment"),
    [
        ("gpt2", Moment("step", 1)),
        ("gpt2", Moment("step", 8)),
        ("gpt2", Moment("keeping a stage", 1)),
        ("gpt2", Moment("finishing", 1)),
        ("bert", Moment("step", 5)),
    ],
    ids=str,
)
def test_a_killed_and_resumed_run_equals_an_uninterrupted_one(pair_of, alone, family, moment):
    pair = pair_of(family)
    assert in_a_process(train_and_die, pair, moment, TOGETHER, "out") == -signal.SIGKILL, f"{moment} never came"
    assert not pair.output().exists()
    result = pair.train()
    assert_same_bits(result.output, alone(family).output)
    assert result.curve == alone(family).curve
    assert {tuple(point.by_language or ()) for point in result.curve.points} == {LANGUAGES}, "in another order"
    assert {path.name for path in pair.folder.iterdir()} == {"out"}, "something was left behind"


def test_the_same_command_again_finds_its_result(pair_of, caplog):
    pair = pair_of()
    first = pair.train(replace(TOGETHER, steps=2))
    with caplog.at_level("INFO"):
        again = pair.train(replace(TOGETHER, steps=2))
    assert "is up to date; nothing to train" in caplog.text
    assert again.curve == first.curve


@pytest.mark.parametrize("family", ["gpt2", "bert"])
def test_two_processes_train_the_model_that_one_trains(pair_of, alone, family):
    pair = pair_of(family)
    assert in_two_processes(train_and_die, pair, None, TOGETHER, "out") == 0
    assert_close(pair.output(), alone(family).output)
    assert_curves_close(Curve.load(pair.output() / CURVE_FILE), alone(family).curve)


def test_the_best_model_is_saved_when_patience_ends(pair_of):
    spoiling = replace(TOGETHER, learning_rate=1.0, patience=2, evaluate_every=1, optimiser="adamw", warmup=0.0)
    result = pair_of().train(spoiling)
    assert result.selected < spoiling.steps
    assert result.selected == result.curve.best.step


def test_a_warning_reports_that_the_source_language_is_forgotten(pair_of, caplog):
    quiet = replace(TOGETHER, steps=2)
    pair_of().train(quiet, "quiet")
    assert "forgets" not in caplog.text
    pair_of().train(replace(quiet, learning_rate=1.0, optimiser="adamw", warmup=0.0), "loud")
    assert "the model forgets its first language: en has" in caplog.text


@pytest.mark.parametrize(
    ("training", "options", "words"),
    [
        ({"batch": 3}, {}, "`batch=3` is odd"),
        ({"batch": 6, "micro_batch": 3}, {}, "`micro_batch=3` is odd"),
        ({"length": 65}, {}, "`length=65` is more than the 64 tokens"),
        ({}, {"languages": ("en", "en")}, "both languages are called 'en'"),
        ({}, {"corpus": []}, "the text of the language 'de' cannot be used"),
        ({"plan": "no such"}, {}, "`plan=no such` is not possible: choose one of relexify"),
        ({"optimiser": "sgd"}, {}, "`optimiser=sgd` is not possible: choose"),
        ({"lookahead_alpha": 0.0}, {}, "`lookahead_alpha=0.0"),
    ],
)
def test_impossible_trainings_are_rejected_and_leave_nothing(pair_of, training, options, words):
    pair = pair_of()
    with pytest.raises(InputError, match=words):
        pair.train(replace(TOGETHER, **training), **options)
    assert not list(pair.folder.iterdir())


def test_empty_text_in_either_language_is_rejected(pair_of, tmp_path):
    (tmp_path / "empty.txt").write_text("\n\n")
    for name, language in (("corpus", "de"), ("source_corpus", "en")):
        with pytest.raises(InputError, match=f"the text of the language '{language}' cannot be used"):
            pair_of().train(**{name: tmp_path / "empty.txt"})


def test_a_batch_that_two_devices_cannot_halve_is_rejected():
    with pytest.raises(InputError, match="leaves 3 sequences to each of 2 devices"):
        check_halves(replace(TOGETHER, batch=6), 2)
    check_halves(replace(TOGETHER, batch=8), 2)
    check_halves(replace(TOGETHER, batch=6, micro_batch=2), 3)


def test_the_defaults_are_the_base_models_of_ramen():
    training = replace(RAMEN, steps=150_000)
    (stage,) = plan_stages(training)
    assert (training.batch, training.length, training.weight_decay) == (64, 256, 0.0)
    assert (stage.learning_rate, stage.schedule, stage.trains) == (1e-4, "inverse_sqrt", "everything")
    assert stage.warmup_steps == pytest.approx(4_000, rel=0.02)
    assert (stage.optimiser, training.lookahead_steps, training.lookahead_alpha) == ("lookahead", 5, 0.5)
