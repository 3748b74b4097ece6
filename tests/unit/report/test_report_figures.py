"""Figures: the same bytes every time, hostile names, one to thirty models."""

import csv
import io
import itertools
import re
from xml.etree import ElementTree

import pytest
from matplotlib.container import ErrorbarContainer

from audit.judging.tables import csv_text
from audit.memory.page import scores
from audit.report import canvas
from audit.report.canvas import power_curve
from audit.statistics.without_memory import Limits
from audit.sweep import figures as f
from audit.sweep.page import write
from audit.sweep.paper import RouterSummary
from audit.sweep.vocabulary import Effect, Verdict

SCORES = (("score", False), ("without memory", True))


def _at(
    r: int, models: int, above: int, excess: float, improve: float, degrade: float
) -> RouterSummary:
    return RouterSummary(
        r, models, above, above / models, excess, improve, degrade, improve - degrade
    )


def test_a_tick_says_the_value_that_it_stands_at() -> None:
    figure = power_curve(lambda n: 1.5 / n**0.5, 100, 900, 0.05, "gain")
    (axes,) = figure.axes
    figure.draw_without_rendering()
    ticks = zip(axes.get_yticks(), axes.get_yticklabels(), strict=True)
    assert all(float(label.get_text()) == pytest.approx(100 * value) for value, label in ticks)


def test_names_and_ticks_of_a_chart_do_not_touch_and_stay_inside() -> None:
    figure = power_curve(lambda n: 1.5 / n**0.5, 14_000, 419, 0.05, "drop")
    (axes,) = figure.axes
    figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in axes.get_xticklabels()]
    assert all(box.x1 < other.x0 for box, other in itertools.pairwise(boxes))
    assert max(text.get_window_extent().x1 for text in axes.texts) <= figure.bbox.x1
    assert axes.get_window_extent().width > 0.7 * figure.bbox.width


@pytest.mark.parametrize("needed", [419, None])
def test_a_run_that_decided_is_told_of_no_number_of_questions(needed: int | None) -> None:
    """One mark is where the run stands; a second, of the questions needed, only if undecided."""
    for decided in (False, True):
        (axes,) = power_curve(
            lambda n: 1.5 / n**0.5, 200, needed, 0.05, "drop", decided=decided
        ).axes
        assert len(axes.texts) == 1 + (needed is not None and not decided)
        assert bool(axes.get_title("left")) == (decided or needed is None)


def test_no_effect_of_more_than_everything_is_ruled_out() -> None:
    (axes,) = canvas.ruled_out([("m", -0.3, 1.886), ("n", -0.1, 0.2)], 0.05, "drop").axes
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "n: above 20.0 ruled out",
        "m: nothing ruled out",
    ]
    assert axes.get_xlim() == (0, 1)


def test_the_bar_of_a_finding_begins_at_its_lower_limit() -> None:
    """+12.6 points, of which 10.0 to 15.2 are compatible: 0 to 10 are not "still possible"."""
    (axes,) = canvas.ruled_out([("m", 0.1, 0.152), ("n", -0.02, 0.03)], 0.05, "gain").axes
    filled = [bar for bar in axes.patches if bar.get_width() < axes.get_xlim()[1]]
    spans = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in filled]
    assert spans == [
        (0.0, pytest.approx(0.03)),
        (pytest.approx(0.1), pytest.approx(0.152)),
    ]  # from below


@pytest.mark.parametrize("estimate", [0.02, 0.3, 0.61, 0.69, 0.97])
def test_no_name_of_a_line_covers_a_number(estimate: float) -> None:
    """Names have a ground of their own, which hid half of "61 %"."""
    x = Limits(estimate, max(estimate - 0.1, 0.0), min(estimate + 0.1, 1.0))
    figure = scores(
        [(f"{label}, smollm2_135m_taught", x, without) for label, without in SCORES * 2], 0.25
    )
    figure.draw_without_rendering()
    (axes,) = figure.axes
    names = [label.get_bbox_patch().get_window_extent() for label in axes.get_yticklabels()]
    numbers = [text.get_window_extent() for text in axes.texts]
    assert len(names) == len(numbers) == 4
    assert not [1 for name in names for number in numbers if name.overlaps(number)]
    assert (
        min(number.x0 for number in numbers) >= 0
        and max(number.x1 for number in numbers) <= figure.bbox.x1
    )


def test_inline_svg_has_no_style_comment_or_foreign_id() -> None:
    """The page's policy blocks style attributes, and two figures on one page must not share an
    id."""
    hostile = 'x--><script>alert(1)</script> style="fill: red" $\\frac{1}{2}$ \n'
    svg = canvas.inline_svg(canvas.svg_text(f.breadth([(hostile, 3, 9)])), "fig9", "a label")
    assert "style=" not in svg
    assert "<!--" not in svg
    assert "<script" not in svg
    ids = re.findall(r'\bid="([^"]+)"', svg)
    assert len(ids) == len(set(ids))
    assert all(name.startswith("fig9-") for name in ids)
    assert set(re.findall(r'href="#([^"]+)"', svg)) <= set(ids)
    assert 'role="img"' in svg
    ElementTree.fromstring(svg.encode())


def test_plain_draws_names_as_they_are() -> None:
    assert canvas.plain("a$b$") == r"a\$b\$"
    assert "\n" not in canvas.plain("two\nlines")
    assert len(canvas.plain("x" * 200)) == 34
    assert canvas.plain("a漢b") == "a□b"


def test_the_worst_verdict_stands_first_and_what_is_drawn_is_the_row() -> None:
    clean = f.GainRow("clean", Verdict.NO_EXCESS, Effect(1, 0.09, -0.01, 0.19, 0, -0.1, 0.1), None)
    bad = f.GainRow("bad", Verdict.EXCESS, Effect(3, 0.07, 0.02, 0.12, 0.05, 0.01, 0.09), 0.03)
    figure = f.forest([clean, bad], 0.05)
    axes = figure.axes[0]
    assert [t.get_text() for t in axes.get_yticklabels()] == ["bad", "clean"]
    ends = [
        container.lines[2][0].get_segments()[0][:, 0].tolist()
        for container in axes.containers
        if isinstance(container, ErrorbarContainer)
    ]
    assert [[round(x, 9) for x in e] for e in ends] == [
        [0.02, 0.12],
        [0.01, 0.09],
        [-0.01, 0.19],
        [-0.1, 0.1],
    ]
    upright = [
        line.get_xdata()[0]
        for line in axes.lines
        if len({*line.get_xdata()}) == 1 and len(line.get_xdata()) == 2
    ]
    assert {0, -0.05, 0.05} <= set(
        upright
    )  # no gain, and the smallest effect that matters on both sides
    (band,) = [
        patch for patch in axes.patches if patch.get_width() > 0
    ]  # the clean arm of one model was run again
    assert (round(band.get_x(), 9), round(band.get_width(), 9)) == (-0.03, 0.06) and abs(
        band.get_y()
    ) < 0.5


def test_a_balance_of_averaged_runs_keeps_its_fraction_and_one_of_many_questions_is_written_out() -> (
    None
):
    of = ((1, 1.3, 1), (2, 0.5, 1), (3, 1.01, 1), (4, 1, 1), (5, 2345, 1111), (6, 5, 12))
    figure = f.transitions([_at(r, 1, 0, 0.0, up, down) for r, up, down in of])
    assert [text.get_text() for text in figure.axes[1].texts] == [
        "+0.3",
        "-0.5",
        "0",
        "0",
        "+1,234",
        "-7",
    ]


@pytest.mark.parametrize("text", ["=1+1", "+1", "-cmd", "@SUM(A1)", "\t=1", "\r=1"])
def test_no_text_from_outside_starts_a_formula(text: str) -> None:
    row = next(csv.reader(io.StringIO(write([{"a": text}], "a").split("\n", 1)[1])))
    assert row == ["'" + text.replace("\r", "\n")]


def test_negative_numbers_stay_numbers() -> None:
    assert (
        write([{"a": -0.25, "b": -3, "c": None, "d": -0.0}], "a", "b", "c", "d")
        == "a,b,c,d\n-0.25,-3,,0\n"
    )
    assert (
        csv_text(("a", "b", "c"), [("-0.25", "-1.5e-07", "-1+A1")])
        == "a,b,c\n-0.25,-1.5e-07,'-1+A1\n"
    )  # every audit
