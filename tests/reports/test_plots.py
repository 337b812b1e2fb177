"""Curves as pictures."""

from __future__ import annotations

import math
import re
import sys
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from relexify.errors import InputError, MissingExtra
from relexify.reports import Comparison, plot_curves
from tests.processes import in_a_process
from tests.reports.curves import FAST, SLOW, compare, curve

OVERFITTED = {0: 3.0, 10: 2.0, 50: 1.5, 100: 1.9}


def texts(path):
    return [element.text for element in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")]


def test_a_picture_names_its_runs_once_and_its_panels(tmp_path):
    panels = [compare("Swahili", fast=FAST, slow=[SLOW, FAST]), compare("German", fast=FAST, other=SLOW)]
    shown = texts(plot_curves(panels, tmp_path / "new" / "curves.svg"))
    for name in ("fast", "slow", "other", "Swahili", "German"):
        assert shown.count(name) == 1
    assert shown.count("steps of 1,000 tokens") == 2
    assert shown.count("bits per byte") == 2
    assert "best, if not last" not in shown


def test_the_same_curves_give_the_same_bytes(tmp_path):
    panels = [compare(fast=[FAST, SLOW], slow=OVERFITTED)]
    for suffix in ("svg", "png"):
        first = plot_curves(panels, tmp_path / f"first.{suffix}").read_bytes()
        assert plot_curves(panels, tmp_path / f"second.{suffix}").read_bytes() == first
        assert len(first) > 1000
    assert (tmp_path / "first.png").read_bytes().startswith(b"\x89PNG")


def test_the_owners_settings_are_neither_used_nor_changed(tmp_path):
    matplotlib = pytest.importorskip("matplotlib")
    plain = plot_curves([compare(fast=FAST)], tmp_path / "plain.svg").read_bytes()
    with matplotlib.rc_context({"lines.linewidth": 9, "axes.facecolor": "red", "font.size": 30}):
        assert plot_curves([compare(fast=FAST)], tmp_path / "mine.svg").read_bytes() == plain
        assert matplotlib.rcParams["font.size"] == 30


def test_a_run_that_became_worse_is_marked_at_its_best(tmp_path):
    assert "best, if not last" in texts(plot_curves([compare(run=OVERFITTED)], tmp_path / "curves.svg"))


def test_a_run_has_one_colour_in_all_panels(tmp_path):
    panels = [compare(a=FAST, b=SLOW), compare(b=FAST), compare(c=FAST, b=SLOW)]
    drawn = plot_curves(panels, tmp_path / "curves.svg").read_text()
    assert len(re.findall("stroke: #d55e00", drawn)) == 4  # b: three panels and the legend
    assert len(re.findall("stroke: #009e73", drawn)) == 2  # c


def test_an_initialisation_has_one_colour_with_every_plan_and_a_plan_one_kind_of_dashes(tmp_path):
    panel = replace(
        compare(fvt=FAST, **{"fvt-direct": SLOW, "blend-direct": SLOW}),
        plans={"fvt": "relexify", "fvt-direct": "direct", "blend-direct": "direct"},
    )
    path = plot_curves([panel], tmp_path / "curves.svg")
    assert texts(path)[-4:] == ["fvt", "blend", "plan relexify", "plan direct"]
    strokes = re.findall(r"stroke-dasharray: ([\d., ]+).*?stroke: #(\w{6})", path.read_text())
    assert [colour for _, colour in strokes] == ["0072b2", "d55e00", "666666"]  # fvt, blend, and the plan in the legend
    assert len({dashes for dashes, _ in strokes}) == 1


def test_the_start_does_not_flatten_the_rest():
    from matplotlib.figure import Figure

    from relexify.reports.plots import _draw_panel, _line_styles

    panel = compare(run={0: 30.0, 5: 20.0, 10: 3.0, 100: 1.0}, bad={0: 2.0, 10: 2.0, 100: 4.0})
    axis = Figure().subplots()
    _draw_panel(axis, panel, _line_styles([panel])[0])
    low, high = axis.get_ylim()
    assert (low, high) == (pytest.approx(0.85), pytest.approx(4.15))  # from 1.0 to 4.0, and a twentieth around
    assert list(axis.lines[0].get_xdata()) == [0, 5, 10, 100]


def test_the_start_of_a_short_training_is_seen():
    from matplotlib.figure import Figure

    from relexify.reports.plots import _draw_panel, _line_styles

    panel = compare(random={0: 2.6, 3: 2.3, 6: 2.1}, blend={0: 1.5, 3: 1.4, 6: 1.3})
    axis = Figure().subplots()
    _draw_panel(axis, panel, _line_styles([panel])[0])
    assert axis.get_ylim()[1] > 2.6


@pytest.mark.parametrize("scores", [{0: 2.0}, {5: 2.0}, {0: math.nan, 5: math.inf}, {0: 2.0, 5: 0.0, 10: 0.0}])
def test_odd_curves_are_drawn_too(tmp_path, recwarn, scores):
    assert "run" in texts(plot_curves([compare(run=scores)], tmp_path / "curves.svg"))
    assert not recwarn.list


def test_names_are_shown_as_they_are(tmp_path):
    names = ["_hidden", "<b> & $x$", *(f"run {index}" for index in range(20))]
    many = Comparison("5 $ < 6 $ & more", {name: (curve(FAST),) for name in names})
    shown = texts(plot_curves([many] * 5, tmp_path / "curves.svg"))
    assert set(names) <= set(shown)
    assert shown.count("5 $ < 6 $ & more") == shown.count("bits per byte") == 5


def test_input_that_cannot_be_drawn_is_rejected(tmp_path):
    with pytest.raises(InputError, match="nothing to draw"):
        plot_curves([], tmp_path / "curves.svg")
    with pytest.raises(InputError, match=r"curves\.docx is not the name of a picture: it must end in \.svg or \.png"):
        plot_curves([compare(fast=FAST)], tmp_path / "curves.docx")


def test_missing_matplotlib_is_reported(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=r"drawing plots needs the package matplotlib: .*relexify\[plots\]"):
        plot_curves([compare(fast=FAST)], tmp_path / "curves.svg")
    assert not list(tmp_path.iterdir())


def assert_reports_do_without_matplotlib() -> None:
    import relexify.reports  # noqa: F401

    assert "matplotlib" not in sys.modules


def test_importing_the_reports_does_not_load_matplotlib():
    assert in_a_process(assert_reports_do_without_matplotlib) == 0
