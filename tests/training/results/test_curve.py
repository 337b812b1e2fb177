"""Curves: validation, lookup, and the round trip to a file."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relexify.errors import InputError
from relexify.training.results.curve import Curve, Measurement
from relexify.training.results.summary import curve_table, judge_training


def point(step: int, bits: float, loss: float | None = 3.0) -> Measurement:
    return Measurement(step, 1_000 * step, "everything", bits, 10 * bits, loss)


CURVE = Curve.of([point(0, 4.0, None), point(10, 2.0), point(20, 1.5), point(30, 1.5), point(40, 1.75)])


def test_points_are_put_in_order_and_the_later_of_equals_counts():
    assert [each.step for each in Curve.of(reversed(CURVE.points)).points] == [0, 10, 20, 30, 40]
    assert Curve.of([point(10, 2.0), point(0, 4.0), point(10, 1.0)]).points == (point(0, 4.0), point(10, 1.0))


def test_first_last_and_best():
    assert (CURVE.first.step, CURVE.last.step) == (0, 40)
    assert CURVE.best.step == 20, "the earliest of equals"


@pytest.mark.parametrize("index", range(5))
def test_the_best_is_never_one_that_is_not_a_number(index):
    points = list(CURVE.points)
    points[index] = point(points[index].step, math.nan)
    assert Curve.of(points).best.step == (30 if index == 2 else 20)


def test_infinite_bits_are_better_than_none_and_worse_than_all_others():
    assert Curve.of([point(0, math.nan), point(1, math.inf)]).best.step == 1
    assert Curve.of([point(0, math.inf), point(1, 9.0)]).best.step == 1


def test_where_nothing_is_a_number_the_first_is_given():
    assert Curve.of([point(5, math.nan), point(6, math.nan)]).best.step == 5


@pytest.mark.parametrize(("step", "nearest"), [(-3, 0), (0, 0), (4, 0), (6, 10), (15, 10), (16, 20), (999, 40)])
def test_the_nearest_measurement_is_found(step, nearest):
    assert CURVE.at(step).step == nearest


numbers = st.floats(allow_nan=False)


@given(
    st.lists(st.builds(Measurement, st.integers(0), st.integers(0), st.text(), numbers, numbers, numbers | st.none()))
)
def test_curves_survive_a_round_trip(tmp_path_factory, points):
    curve = Curve.of(points)
    path = curve.save(tmp_path_factory.getbasetemp() / "curve.json")
    assert Curve.load(path) == curve


def test_a_measurement_that_is_not_a_number_survives_the_file(tmp_path):
    loaded = Curve.load(Curve.of([point(0, math.nan), point(1, math.inf)]).save(tmp_path / "curve.json"))
    assert math.isnan(loaded.first.bits_per_byte)
    assert loaded.last.bits_per_byte == math.inf


WHOLE = json.dumps(CURVE.as_list())
DAMAGED = {
    "empty": b"",
    "cut": WHOLE[:-30].encode(),
    "not text": b"\xff\xfe\x00",
    "a number": b"3",
    "numbers": b"[3]",
    "null": b"null",
    "other fields": b'[{"step": 1}]',
    "more fields": WHOLE.replace('"step"', '"more": 1, "step"').encode(),
    "an object": b'{"points": []}',
}


@pytest.mark.parametrize("damage", list(DAMAGED))
def test_a_damaged_file_is_named_and_rejected(tmp_path, damage):
    path = tmp_path / "curve.json"
    path.write_bytes(DAMAGED[damage])
    with pytest.raises(InputError, match=r"curve\.json holds no training curve"):
        Curve.load(path)


def test_a_missing_file_is_rejected(tmp_path):
    with pytest.raises(InputError, match=r"none\.json holds no training curve"):
        Curve.load(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("scores", "outcome", "said"),
    [
        (
            [3.0, 2.0, 1.5, 1.4],
            "improving",
            "improving. Held-out text takes 1.400 bits per byte, 3.000 at step 0 and 1.5",
        ),
        ([3.0, 2.0], "improving", "takes 2.000 bits per byte, 3.000 at step 0: train it for longer."),
        ([3.0, 2.0, 1.405, 1.4], "finished", "hardly improves any more."),
        (
            [3.0, 2.0, 1.4, 1.5],
            "overfitted",
            "overfitting. Held-out text takes 1.500 bits per byte, 3.000 at step 0 and 1.4",
        ),
        (
            [1.4, 2.0, 1.6, 1.5],
            "worse",
            "made the model worse. Held-out text takes 1.500 bits per byte, 1.400 at step 0",
        ),
        ([1.4, 1.395, 1.5], "worse", "made the model worse."),
        ([1.0, 1.0, 1.0], "finished", "hardly improves any more."),
        ([1.0, 1.0002, 1.0003], "finished", "hardly improves any more."),
        ([1.0, 0.995, 1.005], "finished", "hardly improves any more."),
        ([1.4], "short", "This training is too short to be judged."),
    ],
)
def test_a_training_is_judged_by_its_curve(scores, outcome, said):
    curve = Curve.of(point(10 * index, bits) for index, bits in enumerate(scores))
    verdict = judge_training(curve, curve.last.step)
    assert verdict.outcome == outcome
    assert said in verdict.reason


@pytest.mark.parametrize(
    ("scores", "headline"),
    [
        ([2.311, 2.201, 2.178, 2.170], "The model has improved, but in too short a training to judge it by."),
        ([2.311, 2.301, 2.258, 2.170], "The model has improved, but in too short a training to judge it by."),
        ([2.171, 2.172, 2.170, 2.170], "This training is too short to be judged."),
    ],
)
def test_a_short_training_is_called_neither_finished_because_it_ends_flat_nor_still_improving(scores, headline):
    curve = Curve.of(replace(point(2 * index, bits), tokens=512 * index) for index, bits in enumerate(scores))
    verdict = judge_training(curve, curve.last.step)
    assert verdict.outcome == "short"
    said = f"{headline} Held-out text takes 2.170 bits per byte, {scores[0]:.3f} at step 0"
    assert verdict.reason.startswith(said)
    assert verdict.reason.endswith("train it for longer. It has seen only 1,536 tokens.")


@pytest.mark.parametrize(
    ("scores", "outcome", "said"),
    [
        (
            [2.0, 1.0, 1.3, 1.2],
            "finished",
            "no more after step 10. Held-out text takes 1.000 bits per byte, 2.000 at step 0 and 1.200 at step 30, "
            "which was not kept",
        ),
        (
            [1.4, 1.6, 1.5],
            "worse",
            "Held-out text takes 1.400 bits per byte, 1.400 at step 0 and 1.500 at step 20, which was not kept",
        ),
        ([3.0, 2.0, 1.399, 1.4], "finished", "takes 1.399 bits per byte, 3.000 at step 0 and 1.399 at step 20"),
    ],
)
def test_a_training_that_keeps_its_best_model_is_judged_by_that(scores, outcome, said):
    curve = Curve.of(point(10 * index, bits) for index, bits in enumerate(scores))
    verdict = judge_training(curve, curve.best.step)
    assert verdict.outcome == outcome
    assert said in verdict.reason


@pytest.mark.parametrize(("new_text_steps", "outcome"), [(0, "overfitted"), (29, "overfitted"), (30, "unstable")])
def test_a_training_that_saw_no_text_twice_is_not_called_overfitted(new_text_steps, outcome):
    curve = Curve.of(point(10 * index, bits) for index, bits in enumerate([3.0, 1.4, 1.45, 1.5]))
    verdict = judge_training(curve, curve.last.step, new_text_steps=new_text_steps)
    assert verdict.outcome == outcome
    assert ("not by overfitting, since no text was seen twice" in verdict.reason) == (outcome == "unstable")
    assert "Held-out text takes 1.500 bits per byte, 3.000 at step 0 and 1.400 at step 10" in verdict.reason


@pytest.mark.parametrize(("selected", "said"), [(20, ""), (10, " Step 10 has the best mean of both languages.")])
def test_a_training_on_two_languages_is_judged_by_the_target_language_and_both_are_named(selected, said):
    scores = [(0, 1.0, 3.0), (10, 1.1, 2.0), (20, 1.8, 1.5)]
    curve = Curve.of(
        replace(point(step, (source + target) / 2), by_language={"en": source, "id": target})
        for step, source, target in scores
    )
    verdict = judge_training(curve, selected)
    _, source, target = scores[selected // 10]
    assert verdict.outcome == "improving"
    assert f"Held-out text (id) takes {target:.3f} bits per byte, 3.000 at step 0" in verdict.reason
    assert verdict.reason.endswith(f"Held-out text (en) takes {source:.3f}, 1.000 at step 0.{said}")
    header, *rows = curve_table(curve, selected).rows
    assert header[3:] == ["en: bits per byte", "id: bits per byte", "mean: bits per byte"]
    assert rows[1][3:] == ["1.1000", "2.0000", "1.5500"]
    assert [row[0] for row in rows if "selected" in row[0]] == (["10 (selected)"] if selected == 10 else [])
