"""Invalid input is rejected before any work; errors during training are reported, and checkpoints stay intact."""

from __future__ import annotations

import json
import pickle
import re
import resource
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import Trainer

from relexify.errors import InputError, OutputError, TrainingError, VocabularyError
from relexify.pretrained.loading import load_model
from relexify.progress import report_to
from relexify.storage.locks import only_one
from relexify.storage.runs.checkpoints import SEAL, seal
from relexify.text import Corpus
from relexify.training.options import Stage, Training
from tests import pico
from tests.hostile import MakeFolder
from tests.processes import in_a_process
from tests.training.runs import (
    LINES,
    TRAINING,
    Moment,
    Run,
    assert_same_bits,
    tensors,
)


def left(run: Run) -> set[str]:
    return {path.name for path in run.folder.iterdir()}


def test_a_text_shorter_than_one_sequence_is_rejected(run_of):
    run = run_of()
    (run.folder / "short.txt").write_text("water")
    with pytest.raises(InputError, match=r"has \d tokens, but one sequence of 16 needs 17"):
        replace(run, corpus=run.folder / "short.txt").train()
    assert left(run) == {"short.txt"}


def test_a_missing_text_is_rejected(run_of):
    run = run_of()
    with pytest.raises(InputError, match=r"nowhere\.txt"):
        replace(run, corpus=run.folder / "nowhere.txt").train()
    with pytest.raises(InputError, match=r"nowhere\.txt"):
        replace(run, held_out=run.folder / "nowhere.txt").train()
    assert not left(run)


def test_a_tokenizer_of_another_model_is_rejected(run_of):
    run = run_of()
    shutil.copytree(run.source, run.folder / "mixed")
    pico.byte_level(size=430).save_pretrained(run.folder / "mixed")
    with pytest.raises(VocabularyError, match="they do not belong together"):
        replace(run, source=run.folder / "mixed").train()
    assert left(run) == {"mixed"}


@pytest.mark.parametrize(("family", "longest"), [("gpt2", 64), ("roberta", 64)])
def test_sequences_longer_than_the_model_can_take_are_rejected(run_of, family, longest):
    run = run_of(family)
    with pytest.raises(InputError, match=f"`length=65` is more than the {longest} tokens"):
        run.train(replace(TRAINING, length=65))
    assert not left(run)


def test_an_encoder_decoder_is_rejected(run_of):
    run = run_of("t5")
    with pytest.raises(InputError, match="is an encoder-decoder: only decoders"):
        run.train()
    assert not left(run)


def test_an_output_that_exists_is_rejected_before_any_work_and_replaced_with_overwrite(run_of):
    run = run_of()
    run.train()
    before = tensors(run.output())

    def reporter(description: str, total: int | None = None) -> None:
        raise AssertionError(description)

    with pytest.raises(OutputError, match="exists already"), report_to(reporter):
        run.train(replace(TRAINING, seed=1))
    assert all(tensor.equal(before[name]) for name, tensor in tensors(run.output()).items())
    run.train(replace(TRAINING, seed=1), overwrite=True)
    assert any(not tensor.equal(before[name]) for name, tensor in tensors(run.output()).items())
    assert left(run) == {"out"}


@pytest.mark.parametrize(
    ("name", "other"),
    [("`learning_rate`", {"learning_rate": 2e-2}), ("seed", {"seed": 3}), ("batch", {"batch": 2})],
)
def test_checkpoints_of_another_training_are_rejected_with_the_difference(killed_copy, name, other):
    run = killed_copy()
    with pytest.raises(InputError, match=rf"another run: its {name} was .*delete .* to start again"):
        run.train(replace(TRAINING, **other))
    assert (run.work() / "1-everything" / "checkpoint-8").exists()


def test_checkpoints_of_another_model_are_rejected(killed_copy, shared_run):
    run = killed_copy()
    with pytest.raises(InputError, match="another run, whose model differs"):
        replace(run, source=shared_run("gpt2", dtype=torch.bfloat16).source).train()


@pytest.mark.parametrize(
    ("file", "entries"),
    [("config.json", {"activation_function": "relu"}), ("tokenizer_config.json", {"model_max_length": 33})],
)
def test_checkpoints_of_the_same_weights_with_other_settings_are_rejected(killed_copy, tmp_path, file, entries):
    run = killed_copy()
    source = Path(shutil.copytree(run.source, tmp_path / "edited"))
    pico.edit_json(source / file, **entries)
    with pytest.raises(InputError, match="another run, whose model differs"):
        replace(run, source=source).train()


def test_overwrite_starts_again_where_checkpoints_are_of_another_training(killed_copy, run_of, caplog):
    run, other = killed_copy(), replace(TRAINING, learning_rate=2e-2)
    result = run.train(other, overwrite=True)
    assert "removing it" in caplog.text
    assert_same_bits(result.output, run_of().train(other, "again").output)


@pytest.fixture(scope="module")
def killed(shared_run: Callable[..., Run], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that was killed after its ninth step, with checkpoints of the sixth and the eighth."""
    run = replace(shared_run("gpt2"), folder=tmp_path_factory.mktemp("killed"))
    run.train_until_killed(Moment("step", 9))
    return run


@pytest.fixture
def killed_copy(killed: Run, tmp_path: Path) -> Callable[[], Run]:
    def copy() -> Run:
        shutil.copytree(killed.work(), tmp_path / killed.work().name)
        return replace(killed, folder=tmp_path)

    return copy


@pytest.fixture(scope="module")
def uninterrupted(shared_run: Callable[..., Run], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return replace(shared_run("gpt2"), folder=tmp_path_factory.mktemp("whole")).train().output


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1000])


DAMAGES: dict[str, tuple[str, Callable[[Path], None], str]] = {
    "flipped": ("model.safetensors", flip, "model.safetensors has a wrong checksum"),
    "truncated": ("optimizer.pt", truncate, r"optimizer.pt has \d+ bytes instead of \d+"),
    "removed": ("rng_state.pth", Path.unlink, "rng_state.pth is missing"),
    "unreadable": (SEAL, lambda path: path.write_text("{"), "its list of files cannot be read"),
    "empty": (SEAL, lambda path: path.write_text("{}"), "its list of files is empty"),
    "foreign": (SEAL, lambda path: path.write_text("[]"), "its list of files cannot be read"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_reported_and_the_one_before_it_is_taken(killed_copy, uninterrupted, caplog, damage):
    run, (name, harm, reason) = killed_copy(), DAMAGES[damage]
    harm(run.work() / "1-everything" / "checkpoint-8" / name)
    with caplog.at_level("INFO"):
        result = run.train()
    assert re.search(f"checkpoint-8 is damaged .*{reason}", caplog.text)
    assert "checkpoint-6" in caplog.text
    assert_same_bits(result.output, uninterrupted)


@pytest.mark.parametrize("name", ["optimizer.pt", "scheduler.pt", "rng_state.pth"])
def test_a_pickle_with_code_in_a_sealed_checkpoint_is_rejected_and_not_executed(killed_copy, name):
    run = killed_copy()
    for checkpoint in run.work().glob("*/checkpoint-*"):
        (checkpoint / name).write_bytes(pickle.dumps(MakeFolder(run.folder / "executed")))
        (checkpoint / SEAL).unlink()
        seal(checkpoint)
    with pytest.raises(InputError, match="holds a pickle that contains more than numbers"):
        run.train()
    assert not (run.folder / "executed").exists()


def test_a_run_with_only_damaged_checkpoints_is_rejected_and_starts_again_with_overwrite(killed_copy, uninterrupted):
    run = killed_copy()
    for checkpoint in run.work().glob("*/checkpoint-*"):
        flip(checkpoint / "model.safetensors")
    with pytest.raises(InputError, match=r"every checkpoint in .* is damaged .*delete .* to start again"):
        run.train()
    assert_same_bits(run.train(overwrite=True).output, uninterrupted)


def test_a_damaged_identity_of_the_run_is_rejected_and_starts_again_with_overwrite(killed_copy, uninterrupted):
    run = killed_copy()
    (run.work() / "run.json").write_text('{"batch"')
    with pytest.raises(InputError, match=r"run\.json is corrupt"):
        run.train()
    assert_same_bits(run.train(overwrite=True).output, uninterrupted)


EXPLODING = replace(TRAINING, stages=(Stage("wild", 20, learning_rate=1.0, warmup_steps=20),), weight_decay=1e38)
"""The first step has no rate at all, and no weight survives the decay of the second one."""


def test_a_loss_that_is_nan_stops_training_and_names_the_last_good_checkpoint(run_of):
    run = run_of()
    with pytest.raises(TrainingError, match=r"NaN or infinite at step .*the last good checkpoint is") as error:
        run.train(replace(EXPLODING, save_every=1))
    checkpoints = sorted(run.work().glob("*/checkpoint-*"))
    assert f"{checkpoints[-1]}; try a lower learning rate" in str(error.value)
    for checkpoint in checkpoints:
        assert all(tensor.isfinite().all() for tensor in tensors(checkpoint).values())
    assert not run.output().exists()


def test_a_loss_that_is_nan_is_reported_where_there_is_no_checkpoint_yet(run_of):
    with pytest.raises(TrainingError, match=r"NaN or infinite at step .*there is no checkpoint yet"):
        run_of().train(replace(EXPLODING, save_every=9))


def test_weights_that_are_nan_are_reported_before_the_first_step(run_of, monkeypatch):
    run = run_of()
    source = run.folder / "broken"
    shutil.copytree(run.source, source)
    monkeypatch.setattr("relexify.training.job.training_data", None)  # text is packed only for intact models
    weights = load_file(source / "model.safetensors")
    weights["transformer.h.0.ln_1.weight"][3] = float("nan")
    save_file(weights, source / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match=r"parameter transformer\.h\.0\.ln_1\.weight of GPT2LMHeadModel has NaN"):
        replace(run, source=source).train()
    assert not run.work().exists()


def train_on_a_small_disk(run: Run, limit: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    try:
        run.train()
    except OutputError as error:
        (run.folder / "error.json").write_text(json.dumps(str(error)))


def test_a_full_disk_is_reported_with_the_last_good_checkpoint_and_the_run_resumes_later(killed_copy, uninterrupted):
    run = killed_copy()
    assert in_a_process(train_on_a_small_disk, run, 50_000) == 0
    reported = json.loads((run.folder / "error.json").read_text())
    last = run.work() / "1-everything" / "checkpoint-8"
    assert "checkpoint-10 could not be written (" in reported
    assert reported.endswith(f"the last good checkpoint is {last}")
    assert {path.name for path in last.parent.glob("checkpoint-*")} == {"checkpoint-6", "checkpoint-8"}
    assert_same_bits(run.train().output, uninterrupted)


@pytest.mark.parametrize(("average", "copies"), [(0.0, 3), (0.5, 4)])
def test_a_disk_without_room_for_model_and_checkpoint_is_rejected_before_training(run_of, monkeypatch, average, copies):
    run, training = run_of(), replace(TRAINING, average=average)
    model = sum(parameter.nbytes for parameter in load_model(run.source).parameters())
    disk = SimpleNamespace(total=10**9, free=copies * model - 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: disk)
    with pytest.raises(OutputError, match=r"needs about [\d.]+ kB, but its disk has [\d.]+ kB free: free some space"):
        run.train(training)
    assert not run.work().exists()
    disk.free += 1
    run.train(replace(training, steps=1))


def test_text_that_is_only_held_out_text_is_rejected(run_of):
    run = run_of()
    with pytest.raises(InputError, match=r"all text of .* is also in"):
        run.train(held_out=Corpus.from_lines(LINES))


def test_impossible_options_are_rejected_before_the_model_is_read(tmp_path):
    nothing = Run(tmp_path / "a", tmp_path / "b", tmp_path / "c", tmp_path, tmp_path)
    cases = [
        ({"steps": 0}, "`steps=0"),
        ({"plan": "sideways"}, "`plan=sideways` is not possible: choose"),
        ({"schedule": "steep"}, "`schedule=steep` is not possible: choose"),
        ({"learning_rate": -1.0}, "`learning_rate=-1.0"),
        ({"precision": "float8"}, "`precision=float8` is not possible: choose"),
        ({"stages": (Stage("a", 1), Stage("a", 1))}, "two stages have the same name"),
        ({"stages": (Stage("a", 1, "("),)}, "nor a regular expression"),
    ]
    for options, message in cases:
        with pytest.raises(InputError, match=message):
            nothing.train(Training(**options))


def test_a_folder_of_the_users_own_is_not_taken_for_checkpoints(run_of):
    run = run_of()
    run.work().mkdir()
    (run.work() / "thesis.txt").write_text("years of work")
    for overwrite in (False, True):
        with pytest.raises(InputError, match="did not write"):
            run.train(overwrite=overwrite)
    assert (run.work() / "thesis.txt").read_text() == "years of work"


def test_a_second_process_is_kept_out_of_the_checkpoints_of_the_first(run_of):
    run = run_of()
    run.work().mkdir()
    with only_one(run.work()), pytest.raises(InputError, match="another process"), only_one(run.work()):
        pass


def test_a_stage_without_parameters_is_rejected_before_any_other_is_trained(run_of):
    run = run_of()
    stages = (Stage("one", 2), Stage("two", 2, trains="no such parameter"))
    with pytest.raises(InputError, match="no such parameter"):
        run.train(replace(TRAINING, stages=stages, steps=4))
    assert not run.work().exists()


@pytest.mark.parametrize(
    "change", [{"beta1": 1.5}, {"epsilon": float("nan")}, {"weight_decay": -1.0}, {"clip": -1.0}, {"clip": 0.0}]
)
def test_impossible_optimisers_are_rejected(run_of, change):
    with pytest.raises(InputError, match=next(iter(change))):
        run_of().train(replace(TRAINING, **change))


def test_a_stage_cannot_be_named_like_a_path(run_of):
    with pytest.raises(InputError, match="names no folder"):
        run_of().train(replace(TRAINING, stages=(Stage("a/../../x", 2),), steps=2))


def test_a_version_of_transformers_without_an_overridden_method_is_rejected_with_its_name(run_of, monkeypatch):
    monkeypatch.delattr(Trainer, "_clip_grad_norm")
    with pytest.raises(TrainingError, match=r"has no Trainer\._clip_grad_norm\(model\)"):
        run_of().train()
