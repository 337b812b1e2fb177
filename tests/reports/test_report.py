"""The report of a comparison."""

from __future__ import annotations

import logging
import sys

from relexify.reports import Comparison, write_report
from tests.reports.curves import FAST, SLOW, WORSE, compare

NOTES = {"machine": "NVIDIA H200", "recipe": {"batch": 64, "stages": ["embeddings", "everything"]}}


def test_a_report_has_numbers_tables_and_a_picture(tmp_path):
    comparison = compare("Swahili", notes=NOTES, fast=FAST, slow=SLOW)
    written = write_report(comparison, tmp_path / "report")
    assert [path.name for path in written] == ["comparison.json", "comparison.md", "report.html", "curves.svg"]
    assert {path.name for path in (tmp_path / "report").iterdir()} == {path.name for path in written}
    assert Comparison.load(written[0]) == comparison
    text = written[1].read_text()
    assert text.startswith(
        "# Swahili\n\n- machine: NVIDIA H200\n- recipe: batch = 64, stages = embeddings, everything\n"
        "- tokens per step: 1,000\n\n![bits per byte against steps](curves.svg)\n\n## Scores\n"
    )
    assert "| fast | **3.000** | **2.000** | **1.600** | **1.200** |" in text
    assert "step 30 (3.3×)" in text
    assert "steps to reach 1.800, the end of slow" in text
    assert "one seed a run" in text


def test_a_second_report_replaces_the_first(tmp_path):
    write_report(compare(fast=FAST), tmp_path)
    write_report(compare(slow=SLOW), tmp_path)
    assert list(Comparison.load(tmp_path / "comparison.json").curves) == ["slow"]
    assert "fast" not in (tmp_path / "comparison.md").read_text()


def test_a_single_run_is_compared_with_nothing(tmp_path):
    write_report(compare(fast=FAST), tmp_path)
    text = (tmp_path / "comparison.md").read_text()
    assert "## Scores" in text
    assert "effort" not in text


def test_seeds_that_ended_at_different_steps_are_reported(tmp_path):
    write_report(compare(fast=[FAST, {0: 3.0, 10: 2.0, 50: 1.5}]), tmp_path)
    text = (tmp_path / "comparison.md").read_text()
    assert (
        "The seeds of fast ended at the steps 50, 100; its end here is step 50, the last that all of them have." in text
    )
    assert "sample standard deviation over seeds" in text


def test_a_report_says_that_best_models_count(tmp_path):
    write_report(compare(run=[WORSE, FAST], slow=SLOW, keeps_best=True), tmp_path)
    text = (tmp_path / "comparison.md").read_text()
    assert "Each seed keeps the model with its best score, and has the results of this model." in text
    assert "The seeds of run are at their best at the steps 50, 100." in text
    assert "## Steps to reach another run's best" in text


def test_without_matplotlib_the_picture_is_left_out_with_a_warning(tmp_path, monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr(logging.getLogger("relexify"), "propagate", True)
    with caplog.at_level(logging.WARNING, "relexify"):
        written = write_report(compare(fast=FAST, slow=SLOW), tmp_path)
    assert [path.name for path in written] == ["comparison.json", "comparison.md", "report.html"]
    assert "drawing plots needs the package matplotlib" in caplog.text
    assert "curves.svg" not in (tmp_path / "comparison.md").read_text()
