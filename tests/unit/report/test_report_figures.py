"""Figures: the same bytes every time, hostile names, one to thirty models."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import pytest

from audit.report import canvas
from audit.report import credibility_chart as chart
from audit.report import paper_figures as f


def _scores(k: int) -> list[f.ModelScores]:
    return [
        f.ModelScores(
            label=f"model-{i}",
            clean=f.Score(1, 0.5, 0.4, 0.6),
            noisy=tuple(f.Score(r, 0.4 + 0.02 * r, 0.3 + 0.02 * r, 0.5 + 0.02 * r) for r in range(1, 10)),
            ensemble=(f.Score(2, 0.52, 0.42, 0.62),),
            direct=f.Score(0, 0.55, 0.45, 0.65),
            chance=0.25,
        )
        for i in range(k)
    ]


def _standings(k: int) -> list[chart.Standing]:
    kinds = list(chart.VERDICT_MARKS)
    out = []
    for i in range(k):
        kind = kinds[i % 6]
        out.append(chart.Standing(f"m{i}", 0.5, 0.4, 0.6, None if kind == "withheld" else (i % 5) / 5, kind))
    return out


POINTS = [f.RouterPoint(r, 12, r % 4, 0.01 * r, 10 + r, 15 - r) for r in range(1, 10)]


@pytest.mark.parametrize("k", [1, 2, 3, 12, 30])
def test_every_figure_is_the_same_twice_and_is_xml(k: int) -> None:
    for make in (
        lambda: f.violation_pattern(POINTS),
        lambda: f.small_multiples(_scores(k)),
        lambda: f.transitions(POINTS),
        lambda: f.breadth([f.Breadth(f"m{i}", i % 10, 9) for i in range(k)]),
        lambda: chart.score_and_credibility(_standings(k)),
    ):
        first, second = canvas.svg_text(make()), canvas.svg_text(make())
        assert first == second
        ElementTree.fromstring(first.encode())
        assert "dc:date" not in first


def test_png_is_the_same_twice() -> None:
    first, second = (canvas.png_bytes(f.transitions(POINTS), 60) for _ in range(2))
    assert first == second
    assert first.startswith(b"\x89PNG")


def test_inline_svg_has_no_style_comment_or_foreign_id() -> None:
    """The page's policy blocks style attributes, and two figures on one page must not share an id."""
    hostile = 'x--><script>alert(1)</script> style="fill: red" $\\frac{1}{2}$ \n'
    svg = canvas.inline_svg(canvas.svg_text(f.breadth([f.Breadth(hostile, 3, 9)])), "fig9", "a label")
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


def test_numbers_in_the_chart_never_meet() -> None:
    """Thirty models with one score and five credibilities: every number finds a place of its own."""
    figure = chart.score_and_credibility(_standings(30))
    axes = figure.axes[0]
    figure.canvas.draw()
    places = []
    for text in axes.texts:
        box = text.get_window_extent()
        places.append((box.x0 + box.x1, box.y0 + box.y1))
    assert len(places) == 30
    closest = min(math.dist(a, b) / 2 for i, a in enumerate(places) for b in places[:i])
    assert closest > 8  # pixels at 100 dpi: a digit is about 8 wide


def test_a_balance_of_many_questions_is_written_out() -> None:
    figure = f.transitions([f.RouterPoint(1, 12, 3, 0.1, 2345, 1111), f.RouterPoint(2, 12, 3, 0.1, 5, 12)])
    assert [text.get_text() for text in figure.axes[1].texts] == ["+1,234", "-7"]


def test_a_balance_of_averaged_runs_keeps_its_fraction() -> None:
    figure = f.transitions([f.RouterPoint(r, 1, 0, 0.0, a, 1.0) for r, a in ((1, 1.3), (2, 0.5), (3, 1.01), (4, 1.0))])
    assert [text.get_text() for text in figure.axes[1].texts] == ["+0.3", "-0.5", "0", "0"]


def test_an_unknown_verdict_is_named() -> None:
    with pytest.raises(ValueError, match="perhaps"):
        chart.score_and_credibility([chart.Standing("m", 0.5, 0.4, 0.6, 0.9, "perhaps")])
