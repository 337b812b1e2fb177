"""`benchmarks/methods.py` measures every method that works, and fails if one does not; `faults.py` has every verb.

`transliteration.py` makes a control whose pairs are all wrong.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import corpus_size, faults, large_models, methods
from benchmarks.methods import main, measure, write_stand_ins
from benchmarks.transliteration import main as write_loanwords
from benchmarks.transliteration import shuffled, transliterate
from relexify.cli.app import _Verbs
from relexify.systems.transfer.options import Transfer
from tests import pico

pytestmark = pytest.mark.usefixtures("cache")


@pytest.fixture
def options(tmp_path: Path) -> Transfer:
    corpus = tmp_path / "text.txt"
    corpus.write_text("\n".join(pico.sentences(300, words=pico.foreign_words())))
    return Transfer(str(pico.saved("gpt2", tmp_path / "model")), Path("unused"), str(corpus), vocab_size=330)


def test_methods_are_built_twice_and_scored_on_the_default_amount_of_text(options: Transfer, tmp_path: Path) -> None:
    write_stand_ins(options, tmp_path)
    for method in ("fvt", "omp", "given-rows"):
        found = measure(options, method, tmp_path)
        assert len(found["seconds"]) == 2
        assert (found["score"] is None) == (method == "given-rows")


def test_a_method_whose_process_fails_is_reported(
    options: Transfer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [options.model, "--corpus", options.corpus, "--vocab-size", "330"]
    monkeypatch.setattr(sys, "argv", ["methods.py", *given, "--only", "fvt", "omp"])
    monkeypatch.setattr(sys, "executable", "false")  # a command that fails at once
    with pytest.raises(SystemExit, match="failed: fvt, omp"):
        main()
    assert "| `omp` | failed: 1 | | | |" in capsys.readouterr().out


@pytest.mark.parametrize("script", sorted(file.stem for file in Path(methods.__file__).parent.glob("[!_]*.py")))
def test_help_starts_no_work(script: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", [f"{script}.py", "--help"])
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(f"benchmarks.{script}").main()
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: {script}.py")


def test_a_killed_command_survives_in_the_benchmark_of_faults() -> None:
    command = [sys.executable, "-m", "benchmarks.faults", "--verb", "expand", "--fault", "KILL", "--trials", "1"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "| expand | 1 / 1 |" in ended.stdout


def test_the_benchmark_of_faults_has_every_verb_that_writes_a_result() -> None:
    reporting = {"inspect", "check", "report", "push", "estimate", "recipes", "options", "methods", "geometry"}
    running_others = {"demo"}
    tried = {verb.split()[0] for verb in faults.VERBS}
    assert {*tried, *reporting, *running_others} == set(_Verbs.verbs)


@pytest.mark.parametrize("seed", range(20))
def test_a_control_of_loanwords_has_the_same_words_in_wrong_pairs(seed: int) -> None:
    pairs = {"doktor": "doctor", "doxtur": "doctor", "diyalog": "dialogue", "bolush": "blush", "kilassik": "classic"}
    control = shuffled(pairs, seed)
    assert [*control] == [*pairs]
    assert sorted(control.values()) == sorted(pairs.values())
    assert all(control[word] != partner for word, partner in pairs.items())
    assert control == shuffled(pairs, seed)


def test_controls_of_loanwords_depend_on_their_seed() -> None:
    pairs = {f"foreign{number}": f"english{number}" for number in range(50)}
    assert shuffled(pairs, 0) != shuffled(pairs, 1)


def test_loanwords_that_cannot_all_be_paired_wrongly_are_rejected() -> None:
    with pytest.raises(SystemExit, match="2 of 3"):
        shuffled({"doktor": "doctor", "doxtur": "doctor", "diyalog": "dialogue"}, 0)


@pytest.mark.parametrize("control", [False, True])
def test_loanwords_are_written_as_pairs_or_as_their_control(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, control: bool
) -> None:
    (tmp_path / "ug.txt").write_text("دوكتور دىيالوگ " * 3, encoding="utf-8")
    (tmp_path / "en.txt").write_text("doktor diyalog " * 3, encoding="utf-8")
    files = [
        "--corpus",
        tmp_path / "ug.txt",
        "--source-corpus",
        tmp_path / "en.txt",
        "--output",
        tmp_path / "pairs.tsv",
    ]
    monkeypatch.setattr(sys, "argv", ["transliteration.py", *map(str, files), *(["--shuffle", "0"] if control else [])])
    write_loanwords()
    found = [line.split("\t") for line in (tmp_path / "pairs.tsv").read_text(encoding="utf-8").splitlines()]
    assert [transliterate(word) for _, word in found] == ["doktor", "diyalog"]
    assert [english for english, _ in found] == (["diyalog", "doktor"] if control else ["doktor", "diyalog"])


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_the_memory_of_a_measured_process_is_its_own(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("\n".join(pico.sentences(100)))
    held = bytearray(b"x" * 700_000_000)  # by the process that measures, which a fork shares
    _, memory = corpus_size.measure("read", tmp_path / "text.txt", tmp_path, 1)
    assert 10_000_000 < memory < len(held)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(0.5)"])
    _, peak, status, _ = large_models.sample_memory(child.pid)
    assert status == 0
    assert 1_000_000 < peak < len(held)
