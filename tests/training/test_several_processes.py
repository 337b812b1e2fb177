"""Several processes train the model that one would have trained, and write it once."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import DistributedType, PartialState

from relexify.errors import InputError
from relexify.pretrained.loading import load_tokenizer
from relexify.text import Corpus
from relexify.training.data import packing
from relexify.training.data.texts import share_packing
from relexify.training.distributed import started_processes
from relexify.training.engine.trainer import StageTrainer
from relexify.training.options import Training
from relexify.training.results.curve import Curve
from relexify.training.results.result import CURVE_FILE, TrainingResult
from tests.processes import in_launched_processes, in_two_processes
from tests.training.runs import (
    TRAINING,
    Moment,
    Run,
    assert_close,
    assert_curves_close,
    beside,
    train_and_die,
)

TOGETHER = replace(TRAINING, steps=6, evaluate_every=3, save_every=2)
MUON = replace(TOGETHER, plan="relexify", optimiser="muon", learning_rate=None, keep_best=False)
SHARDED = {
    "ACCELERATE_USE_FSDP": "true",
    "FSDP_VERSION": "2",
    "FSDP_AUTO_WRAP_POLICY": "TRANSFORMER_BASED_WRAP",
    "FSDP_TRANSFORMER_CLS_TO_WRAP": "GPT2Block",
    "FSDP_RESHARD_AFTER_FORWARD": "true",
    "FSDP_CPU_RAM_EFFICIENT_LOADING": "false",
}

needs_sharding = pytest.mark.skipif(
    not hasattr(torch.cpu.Stream, "record_event"), reason="this version of torch cannot shard models on CPUs"
)


@pytest.fixture(scope="module")
def alone(shared_run: Callable[..., Run], tmp_path_factory: pytest.TempPathFactory) -> TrainingResult:
    """The result of one process."""
    return beside(shared_run("gpt2", dropout=False), tmp_path_factory.mktemp("alone")).train(TOGETHER)


def assert_trained_like(run: Run, alone: TrainingResult) -> None:
    assert_close(run.output(), alone.output)
    assert_curves_close(Curve.load(run.output() / CURVE_FILE), alone.curve)
    assert not run.work().exists()


def test_two_processes_train_the_masked_language_model_that_one_trains(run_of):
    run = run_of("bert", dropout=False)
    alone = run.train(TOGETHER, "alone")
    assert in_two_processes(train_and_die, run, None, TOGETHER, "out") == 0
    assert_trained_like(run, alone)


def test_a_killed_run_of_two_processes_resumes_in_two_and_in_one(run_of, alone):
    run = run_of("gpt2", dropout=False)
    assert in_two_processes(train_and_die, run, Moment("step", 3), TOGETHER, "out") == -signal.SIGKILL
    assert in_two_processes(train_and_die, run, Moment("step", 3), TOGETHER, "out") == -signal.SIGKILL
    assert (run.work() / "1-everything" / "checkpoint-4").exists(), "the second run did not resume the first"
    run.train(TOGETHER)
    assert_trained_like(run, alone)


def train_sharded(run: Run, moment: Moment | None, training: Training, name: str) -> None:
    """As `train_and_die`; accelerate shards over GPUs only, so it is configured as if these processes have one each."""
    own = PartialState.__init__

    def with_devices(state: Any, *arguments: Any, **options: Any) -> None:
        own(state, *arguments, **options)
        if state.distributed_type == DistributedType.NO:  # a launcher of one process, which on a CPU counts as none
            torch.distributed.init_process_group("gloo")
            state.backend = "gloo"
        if state.distributed_type in (DistributedType.NO, DistributedType.MULTI_CPU):
            state.distributed_type = DistributedType.MULTI_GPU

    PartialState.__init__ = with_devices
    train_and_die(run, moment, training, name)


@needs_sharding
@pytest.mark.parametrize("form", ["FULL_STATE_DICT", "SHARDED_STATE_DICT"])
def test_a_model_sharded_over_two_processes_is_trained_like_a_whole_one_and_resumes(run_of, alone, form):
    run, environment = run_of("gpt2", dropout=False), {**SHARDED, "FSDP_STATE_DICT_TYPE": form}
    killed = in_two_processes(train_sharded, run, Moment("step", 5), TOGETHER, "out", **environment)
    assert killed == -signal.SIGKILL
    assert is_sharded(run.work() / "1-everything" / "checkpoint-4")
    assert in_two_processes(train_sharded, run, None, TOGETHER, "out", **environment) == 0
    assert_trained_like(run, alone)


def train_sharded_in_parts(run: Run, moment: Moment | None, training: Training, name: str) -> None:
    """As `train_sharded`, and check that sums of gradients are shards too, not gradients of the whole model."""
    step, unsynchronised = StageTrainer.training_step, []

    def observed(trainer: StageTrainer, *arguments: Any, **options: Any) -> torch.Tensor:
        loss = step(trainer, *arguments, **options)
        gradients = [parameter.grad for parameter in trainer.model.parameters()]
        unsynchronised.append(any(gradient is None for gradient in gradients))
        return loss

    StageTrainer.training_step = observed
    train_sharded(run, moment, training, name)
    assert len(unsynchronised) > training.steps, "the batch was not cut into parts"
    assert not any(unsynchronised)


@needs_sharding
def test_gradients_of_parts_of_a_batch_are_sharded_too(run_of, alone):
    run, parts = run_of("gpt2", dropout=False), replace(TOGETHER, micro_batch=1)
    environment = {**SHARDED, "FSDP_STATE_DICT_TYPE": "SHARDED_STATE_DICT"}
    assert in_two_processes(train_sharded_in_parts, run, None, parts, "out", **environment) == 0
    assert_trained_like(run, alone)


def test_a_killed_run_of_one_process_resumes_in_two(run_of, alone):
    run = run_of("gpt2", dropout=False)
    run.train_until_killed(Moment("step", 5), TOGETHER)
    assert in_two_processes(train_and_die, run, Moment("step", 1), TOGETHER, "out") == -signal.SIGKILL
    assert (run.work() / "1-everything" / "checkpoint-4").exists(), "two processes did not resume the run of one"
    assert in_two_processes(train_and_die, run, None, TOGETHER, "out") == 0
    assert_trained_like(run, alone)


@needs_sharding
@pytest.mark.parametrize("numbers", [(2, 1), (1, 2)], ids=["two, then one", "one, then two"])
@pytest.mark.parametrize("form", ["FULL_STATE_DICT", "SHARDED_STATE_DICT"])
def test_a_sharded_model_resumes_in_another_number_of_processes(run_of, alone, form, numbers):
    run, environment = run_of("gpt2", dropout=False), {**SHARDED, "FSDP_STATE_DICT_TYPE": form}
    first, second = numbers
    killed = in_launched_processes(first, train_sharded, run, Moment("step", 5), TOGETHER, "out", **environment)
    assert killed == -signal.SIGKILL
    assert is_sharded(run.work() / "1-everything" / "checkpoint-4")
    assert in_launched_processes(second, train_sharded, run, None, TOGETHER, "out", **environment) == 0
    assert_trained_like(run, alone)


def assert_plain_checkpoint_is_rejected(run: Run) -> None:
    with pytest.raises(InputError, match=r"without FSDP, .* start the command without FSDP"):
        train_sharded(run, None, TOGETHER, "out")


@needs_sharding
def test_a_plain_checkpoint_with_fsdp_is_rejected_with_what_to_do(run_of):
    run, environment = run_of("gpt2", dropout=False), {**SHARDED, "FSDP_STATE_DICT_TYPE": "SHARDED_STATE_DICT"}
    run.train_until_killed(Moment("step", 5), TOGETHER)
    assert in_two_processes(assert_plain_checkpoint_is_rejected, run, **environment) == 0


@needs_sharding
def test_a_sharded_checkpoint_without_fsdp_is_rejected_with_what_to_do(run_of):
    run, environment = run_of("gpt2", dropout=False), {**SHARDED, "FSDP_STATE_DICT_TYPE": "SHARDED_STATE_DICT"}
    in_two_processes(train_sharded, run, Moment("step", 5), TOGETHER, "out", **environment)
    with pytest.raises(InputError, match=r"with FSDP, .* start the command with FSDP, .* torchrun --nproc-per-node 1"):
        run.train(TOGETHER)


@pytest.mark.parametrize(
    "sharded", [pytest.param(False, id="replicated"), pytest.param(True, id="sharded", marks=needs_sharding)]
)
def test_muon_and_averages_train_the_same_model_in_two_processes_and_resume(run_of, sharded):
    run, training = run_of("gpt2", dropout=False), replace(MUON, average=0.9, evaluate_every=1)
    alone = run.train(training, "alone")
    train = train_sharded if sharded else train_and_die
    environment = {**SHARDED, "FSDP_STATE_DICT_TYPE": "SHARDED_STATE_DICT"} if sharded else {}
    assert in_two_processes(train, run, Moment("step", 5), training, "out", **environment) == -signal.SIGKILL
    assert in_two_processes(train, run, None, training, "out", **environment) == 0
    assert_trained_like(run, alone)


def assert_flat_parameters_are_rejected(run: Run) -> None:
    with pytest.raises(
        InputError, match=r"Muon and separate learning rates need.* set fsdp_version to 2, or choose the plan direct"
    ):
        train_sharded(run, None, MUON, "out")


def test_muon_rejects_parameters_that_are_flat(run_of):
    environment = {**SHARDED, "FSDP_VERSION": "1", "FSDP_STATE_DICT_TYPE": "FULL_STATE_DICT"}
    assert in_two_processes(assert_flat_parameters_are_rejected, run_of("gpt2", dropout=False), **environment) == 0


def is_sharded(checkpoint: Path) -> bool:
    return any(checkpoint.glob("pytorch_model_fsdp*"))


def assert_rejected(run: Run) -> None:
    with pytest.raises(InputError, match="a batch of 3 cannot be cut into parts of 1 on each of 2 devices"):
        run.train(replace(TOGETHER, batch=3))


def test_a_batch_that_two_processes_cannot_share_is_rejected(run_of):
    assert in_two_processes(assert_rejected, run_of()) == 0


def pack_in_shares(run: Run) -> None:
    """For each of two processes: tokenize a share of the text, and then read all of it."""
    packing._BATCH_BYTES, packing._SHARD = 200, 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RELEXIFY_CACHE", str(run.cache))
        tokenizer = load_tokenizer(run.source)
        share_packing(tokenizer, run.corpus, run.held_out)
        started_processes().wait_for_everyone()
        shards = sorted(path.stem for path in run.cache.glob("packed-text-shards/*/*.bin"))
        assert len(shards) > 4
        assert shards == [f"{number:06}" for number in range(1, len(shards) + 1)], "a process has not done its share"
        started_processes().wait_for_everyone()
        with started_processes().main_process_first():
            packing.pack(Corpus.open(run.corpus), tokenizer, excluding=Corpus.open(run.held_out))


def test_two_processes_share_the_tokenizing_and_write_what_one_writes(run_of, tmp_path):
    run = replace(run_of("gpt2"), cache=tmp_path / "own")
    assert in_two_processes(pack_in_shares, run) == 0
    (together,) = run.cache.glob("packed-text/*")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RELEXIFY_CACHE", str(tmp_path / "other"))
        tokenizer = load_tokenizer(run.source)
        packing.pack(Corpus.open(run.corpus), tokenizer, excluding=Corpus.open(run.held_out))
    (alone,) = (tmp_path / "other").glob("packed-text/*")
    assert together.name == alone.name
    for path in alone.iterdir():
        assert (together / path.name).read_bytes() == path.read_bytes(), path.name
