"""Every audit's page in a real browser: the decision first, short before anything is opened, and
nobody is shut out."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import panels
import pytest
import test_report_joint as joint
import validity_panels
from memory_cells import cell as memory_cell
from memory_cells import run_of as memory_run
from opened import open_page, shut_out
from perturb_cells import judged as perturb_judged

from audit.commands.open import Line
from audit.core.records import Item, Setting
from audit.judging.decision import SHOWN, Decision
from audit.judging.document import Interval
from audit.memory import page as memory_page
from audit.memory.page import scores
from audit.perturb import page as perturb_page
from audit.perturb.page import original_against_variants
from audit.registry.comparison import CellChange, QuestionChange, SettingChange
from audit.registry.comparison import page as comparison_page
from audit.registry.entry import Cell
from audit.report.build import write_parts
from audit.report.canvas import svg_text
from audit.report.joint import page as joint_page
from audit.report.page import RunFacts, render_page
from audit.statistics.versions import PairedDifference
from audit.statistics.without_memory import Limits
from audit.sweep.design import Arm
from audit.validity.as_paper import paper_tables
from audit.validity.figures import differences, family_changes
from audit.validity.page import render as validity_page
from audit.validity.record import Cell as ValidityCell
from audit.variants.arrow import find_library

pytestmark = pytest.mark.browser
SCREENS = {
    1280: (800, 4),
    390: (844, 10),
}  # width -> height of a screen, and how many a page may take
FACTS = RunFacts("Run r", (("Status", "finished"),))


OUTCOMES = (("original", "correct"), ("variant 1", "wrong"))


def _sweep(folder: Path) -> str:
    run = panels.run_of(folder / "run", panels.outcomes_of(1, 30))
    panels.write(run, folder / "report")
    return (folder / "report" / "report.html").read_text(encoding="utf-8")


def _perturb(folder: Path) -> str:
    verdict = perturb_judged()
    bars = perturb_page._bars(verdict.cells)
    drawn = {
        "original_against_variants_b": original_against_variants(bars, 0.25),
        **perturb_page._reach(verdict),
    }
    wordings = [
        perturb_page.Shown(name, [("Who ", ""), ("asks?", "")], None, how, how)
        for name, how in OUTCOMES
    ]
    items = [
        perturb_page.PageItem(
            "m", "b", f"q{k}", ("Ann", "Bob"), 0, 0.5, 0.1, False, (), tuple(wordings)
        )
        for k in range(4)
    ]
    figures = write_parts(folder, {}, drawn)[2]
    return perturb_page.render(verdict, find_library("elementary"), FACTS, figures, items, None)


def _memory(folder: Path) -> str:
    verdict = memory_run(memory_cell(references=5, seed=1))
    figures = write_parts(folder, {}, memory_page._scores(verdict))[2]
    assert set(figures) == {"score_without_memory", "ruled_out", "power_curve"}
    (cell,), (result,) = verdict.cells, verdict.results
    sets = (cell.published, cell.fresh)
    items_by_id = {
        (s.name, id_): Item(id_, s.name, f"Who is {id_}?", ("Ann", "Bob"), 0, id_)
        for s in sets
        for id_ in s.question_ids
    }
    items = memory_page._items(cell, items_by_id)
    return memory_page.render(
        verdict, FACTS, figures, items, [memory_page.ranked(cell, result, items_by_id)]
    )


def _validity(folder: Path, cells: Sequence[ValidityCell] = ()) -> str:
    cells = cells or validity_panels.cells(n=30)[:2]
    verdict, rows = validity_panels.verdict(cells), validity_panels.rows(cells)
    drawn = {
        "families": family_changes(verdict.results),
        "difference": differences(verdict.results),
    }
    figures = write_parts(folder, {}, drawn)[2]
    return validity_page(verdict, [FACTS], figures, rows, paper_tables(verdict, rows))


def _suite(folder: Path) -> str:
    rows = [
        ("score, m", Limits(0.7, 0.6, 0.8), False),
        ("without memory, m", Limits(0.5, 0.4, 0.6), True),
    ]
    estimate = {
        "sentence": "Score 70 % (60.1 to 80.2). Without memory: 50 % (40.1 to 60.2), against 3 references.",
        "estimate": None,
    }
    verdicts = {
        "sweep": joint.sweep("excess"),
        "memory": joint.memory("memory_of_text_seen", without_memory=estimate),
    }
    return joint_page(
        joint.joined(verdicts), None, {"score_without_memory": svg_text(scores(rows, 0.25))}
    )


HOSTILE = "<img src=x onerror=alert(1)>" + "m" * 60
SUITE: dict[str, Any] = {
    "audit_suite_id": "demo",
    "suite_sha256": "0",
    "forms_required": {},
    "gate": "ours",
    "domain": "general",
    "source": [],
    "sentences": ["rule " * 30] * 8,
    "model": {
        "name": HOSTILE,
        "stated": "sha256:" + "a" * 64,
        "found": "sha256:" + "a" * 64,
        "claimed": False,
    },
}
LONG = (
    "Score 58 % (95 % interval 51.0 to 65.2). Without memory: 51.3 % (95 % interval 40.1 to 62.3), against 3 "
    "references. This holds if the sets differ for all alike."
)


def _long_suite(_: Path) -> str:
    """Four audits of a model with long words; validity in two contexts on a benchmark of its
    own."""
    fields: dict[str, Any] = {
        "model": HOSTILE,
        "reasons": ["why " * 60] * 6,
        "what_to_do": ["Take 1,070 items. " * 6],
    }
    fields |= {
        "sensitivity": "Measured sensitivity: " + "such and such " * 40,
        "headline": "Too few data. " * 15,
    }
    contexts = (
        ("fact", "diagnostic", "indeterminate"),
        ("story", "invariance", "confirmatory_selective"),
    )
    validity = joint.validity(*contexts)
    cells = [{**cell, **fields, "benchmark": "contrast"} for cell in validity["cells"]]
    verdicts = {
        "sweep": joint.sweep("underpowered", **fields),
        "perturb": joint.perturb("no_drop_detected", **fields),
        "memory": joint.memory(
            "underpowered", without_memory={"sentence": LONG, "estimate": None}, **fields
        ),
        "validity": {**validity, "cells": cells},
    }
    return joint_page(joint.joined(verdicts, {**SUITE}))


def _index(folder: Path) -> str:
    memory = Interval(estimate=0.5, low=0.4, high=0.6)
    lines = [
        Line(
            name,
            "sweep",
            "2026-01-02 03:04",
            "all 900",
            name,
            "exam",
            SHOWN[Decision.BLOCK],
            0.7,
            memory,
            "r.html",
        )
        for name in ("a", "b")
    ]
    return render_page(
        "report/runs.html.j2", rows=(), title="Runs in outputs", lines=lines, count=2
    )


def _comparison(folder: Path) -> str:
    cell = Cell("m", "exam", "", "rev0", "rev1", 100, "excess", "", "", True, {}, None, None, ())
    difference = PairedDifference(100, 100, 0.6, 0.7, 0.1, 0.02, 0.18, 15, 5, 0.04)
    settings = tuple(SettingChange(Setting(Arm.NOISY_REWRITE, r), difference, 0.04) for r in (1, 2))
    changed = (QuestionChange("q", "Who?", "Ann", ()),)
    change = CellChange("sweep", (cell,), (cell,), None, settings, (), (), 1, changed)
    return comparison_page([change], Path("before"), Path("after"))


AUDITS = ("sweep", "perturb", "memory", "validity")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The page of this name, which is built once."""

    @cache
    def page_of(name: str) -> Path:
        folder = tmp_path_factory.mktemp(name)
        path = folder / f"{name}.html"
        path.write_text(globals()[f"_{name}"](folder), encoding="utf-8")
        return path

    return page_of


@pytest.fixture(params=AUDITS)
def page(request: pytest.FixtureRequest, made: Callable[[str], Path]) -> Path:
    return made(request.param)


@pytest.fixture(params=[*AUDITS, "suite", "index", "comparison"])
def every_page(request: pytest.FixtureRequest, made: Callable[[str], Path]) -> Path:
    return made(request.param)


def _open(browser: Any, page: Path, width: int, dark: bool = False, at: str = "") -> None:
    open_page(browser, page.as_uri() + at, width, SCREENS[width][0], dark)


@pytest.mark.parametrize("width", [1280, 390])
def test_the_decision_stands_first_and_the_page_is_short(
    browser: Any, page: Path, width: int
) -> None:
    _open(browser, page, width)
    first = browser.execute_script(
        "return document.querySelector('main').innerText.trim().slice(0, 400)"
    )
    strip = browser.execute_script("return document.querySelector('table.strip').innerText.trim()")
    assert first.startswith(strip) and len(strip) < 400
    order = browser.execute_script("""
        const top = (what) => document.querySelector(what).getBoundingClientRect().top;
        return ["table.strip", ".cell .head", "svg.fig", "#gates", "section.part"].map(top);
    """)
    assert order == sorted(order)
    screen, most = SCREENS[width]
    height = browser.execute_script("return document.documentElement.scrollHeight")
    print(f"{page.stem} at {width}: {height} px, {height / screen:.1f} screens")
    assert height <= most * screen
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert browser.get_log("browser") == []


def test_a_chart_fills_its_card(browser: Any, page: Path) -> None:
    """A card takes at least two fifths of the page's width; lettering of 10 points is at most 18 px."""
    _open(browser, page, 1280)
    sizes = browser.execute_script("""
        const main = document.querySelector("main").clientWidth;
        return [...document.querySelectorAll("svg.fig")].filter((one) => one.clientWidth).map((one) => {
            const box = one.closest(".box").clientWidth;
            return [one.clientWidth / box, box / main, one.clientWidth / one.viewBox.baseVal.width];
        });
    """)
    assert sizes
    for of_card, of_page, points in sizes:
        assert of_card > 0.85 and of_page > 0.4 and 10 * points <= 18


def test_every_limit_on_a_card_names_its_sides_and_one_decides(browser: Any, page: Path) -> None:
    """An interval is two-sided; of the limits, one a card is one-sided, where an audit has one."""
    _open(browser, page, 1280)
    cards = browser.execute_script("""
        return [...document.querySelectorAll(".cell .facts")].map((card) =>
            [...card.querySelectorAll("dd")].map((one) => [one.textContent.includes("["),
                [...one.querySelectorAll("[data-limit]")].map((limit) => limit.dataset.limit)]));
    """)
    assert cards
    for card in cards:
        assert [sides for bracket, sides in card if bracket] == [
            ["two-sided"] for bracket, _ in card if bracket
        ]
        deciding = [sides for bracket, sides in card if sides and not bracket]
        assert deciding == ([] if page.stem == "validity" else [["one-sided"]])


def test_how_often_the_procedure_is_wrong_is_as_large_as_the_rest(
    browser: Any, every_page: Path
) -> None:
    if every_page.stem in ("index", "comparison"):
        pytest.skip("no verdict stands on this page")
    _open(browser, every_page, 1280)
    rates = browser.execute_script("""
        const size = (node) => parseFloat(getComputedStyle(node).fontSize);
        const rates = [...document.querySelectorAll("#sure [data-rates], #sure table.wrong td")];
        return rates.map((one) => [size(one), one.closest("details") === null, one.clientHeight > 0]);
    """)
    body = browser.execute_script("return parseFloat(getComputedStyle(document.body).fontSize)")
    assert rates and all(size >= body and open_ and seen for size, open_, seen in rates)


@pytest.mark.parametrize("width", [1280, 390])
def test_three_questions_stand_open(browser: Any, page: Path, width: int) -> None:
    """Beside each other where there is room, else below; each with what was asked and how it was
    answered."""
    _open(browser, page, width)
    boxes = browser.execute_script("""
        return [...document.querySelectorAll("#example .brief")].map((one) => {
            const at = one.getBoundingClientRect();
            return [at.top, at.height, one.querySelectorAll(".qtext").length, /[✓✗–?…!]/.test(one.textContent)];
        });
    """)
    tops = [top for top, *_ in boxes]
    assert len(boxes) == 3 and all(
        height > 40 and texts and answered for _, height, texts, answered in boxes
    )
    assert len(set(tops)) == (1 if width == 1280 else 3)


@pytest.mark.parametrize(("width", "most"), [(1280, 4 * 900), (390, 10 * 844)])
def test_the_decision_of_a_suite_stands_first_and_its_page_is_short(
    browser: Any, made: Callable[[str], Path], width: int, most: int
) -> None:
    _open(browser, made("long_suite"), width)
    script = "return [...document.querySelectorAll('#decision, .strip, .without, .looked, #audits, #more')]"
    tops = browser.execute_script(f"{script}.map(one => one.getBoundingClientRect().top + scrollY)")
    assert tops == sorted(tops) and len(set(tops)) >= 6 and tops[0] < SCREENS[width][0] / 2
    page_size = browser.execute_script(
        "const e = document.documentElement; return [e.scrollHeight, e.scrollWidth]"
    )
    assert page_size[0] <= most and page_size[1] <= width
    assert (
        browser.execute_script("return document.querySelector('#decision').dataset.decision")
        == "block"
    )
    assert browser.execute_script("return document.images.length") == 0
    assert browser.execute_script("return document.querySelectorAll('details[open]').length") == 0


def test_four_cells_that_failed_say_what_how_sure_and_what_to_do_on_one_screen(
    browser: Any, tmp_path: Path
) -> None:
    deaf = validity_panels.cells(n=30)[1]
    cells = [replace(deaf, benchmark=f"benchmark_{k}") for k in range(4)]
    path = tmp_path / "page.html"
    path.write_text(_validity(tmp_path, cells), encoding="utf-8")
    _open(browser, path, 1280)
    sure, end, height = browser.execute_script("""
        const bottom = (what) => document.querySelector(what).getBoundingClientRect().bottom;
        const notes = [...document.querySelectorAll(".strip .note")].filter((x) => x.textContent.startsWith("How"));
        return [notes.length, bottom(".todo + ul"), document.documentElement.scrollHeight];
    """)
    screen, most = SCREENS[1280]
    assert sure == 4 and end <= screen and height <= most * screen


def test_a_link_into_a_folded_section_opens_it_and_print_opens_all(
    browser: Any, page: Path
) -> None:
    _open(browser, page, 1280, at="#run")
    closed = "return [...document.querySelectorAll('details')].filter((d) => !d.open).length"
    assert browser.execute_script("return document.querySelector('#run > details').open")
    browser.execute_script("document.querySelector('nav a[href=\"#questions\"]').click()")
    assert browser.execute_script("return document.querySelector('#questions > details').open")
    assert browser.execute_script(closed) > 0
    browser.execute_script("window.dispatchEvent(new Event('beforeprint'))")
    assert browser.execute_script(closed) == 0


def test_tables_sort_and_are_downloaded(browser: Any, made: Callable[[str], Path]) -> None:
    _open(browser, made("sweep"), 1280)
    result = browser.execute_script("""
        document.querySelectorAll("details").forEach((d) => (d.open = true));
        const table = document.querySelector("#accuracy table"), head = table.tHead.rows[0].cells[4];
        const shown = () => [...table.tBodies[0].rows].map((row) => parseFloat(row.cells[4].textContent));
        head.querySelector("button").click();
        const up = shown(), said = head.getAttribute("aria-sort");
        head.querySelector("button").click();
        const saved = [];
        HTMLAnchorElement.prototype.click = function () { saved.push([this.download, this.href]); };
        document.querySelector("#accuracy button.get").click();
        return [up, said, shown(), head.getAttribute("aria-sort"), saved];
    """)
    up, order, down, then, ((name, href),) = result
    assert up == sorted(up) and down == sorted(up, reverse=True) and up != down
    assert (order, then, name) == ("ascending", "descending", "accuracy_in_every_setting.csv")
    assert href.startswith("data:text/csv") and href.count("%0D%0A") == len(up)
    picture = browser.execute_async_script("""
        const done = arguments[0];
        HTMLAnchorElement.prototype.click = function () { done([this.download, this.href.slice(0, 22)]); };
        document.querySelector("figure button.get").click();
    """)
    assert picture == ["figure3_noisy_against_clean.png", "data:image/png;base64,"]
    assert browser.get_log("browser") == []


def test_dates_of_a_year_sort_and_what_has_none_stands_last(browser: Any, tmp_path: Path) -> None:
    started = ("2026-03-01 00:00", "", "2026-01-02 03:04")
    lines = [Line(str(k), started=start) for k, start in enumerate(started)]
    path = tmp_path / "index.html"
    path.write_text(
        render_page("report/runs.html.j2", rows=(), title="Runs", lines=lines, count=3),
        encoding="utf-8",
    )
    _open(browser, path, 1280)
    column = browser.execute_script("""
        const table = document.querySelector("#runs table");
        [...table.tHead.rows[0].cells].at(-1).querySelector("button").click();
        return [...table.tBodies[0].rows].map((row) => row.cells[8].textContent);
    """)
    assert column == ["2026-01-02 03:04", "2026-03-01 00:00", ""]


def test_every_table_sorts_and_every_table_and_figure_can_be_kept(
    browser: Any, every_page: Path
) -> None:
    _open(browser, every_page, 1280)
    tables, unsorted, uncsv, unpng = browser.execute_script("""
        const all = (what) => [...document.querySelectorAll(what)], box = (node) => node.closest(".box");
        const tables = all(".box > table:not(.strip, .grid)").filter((t) => t.tHead && t.tBodies[0].rows.length > 1);
        const flat = tables.filter((t) => !t.querySelector("[rowspan], thead [colspan]"));
        const names = (list) => list.map((node) => box(node).getAttribute("aria-label"));
        return [tables.length, names(flat.filter((t) => !t.querySelector("thead button"))),
            names(tables.filter((t) => t.parentElement.nextElementSibling?.textContent !== "csv")),
            names(all("svg.fig").filter((s) => !box(s).querySelector("button.get")))];
    """)
    assert tables and (unsorted, uncsv, unpng) == ([], [], [])
    # The few figures of one item, in its fold, are no table that a person sorts or keeps.
    bare = "return document.querySelectorAll('table:not(.box > table, .detail table)').length"
    assert browser.execute_script(bare) == 0
    for width in SCREENS:
        _open(browser, every_page, width)
        browser.execute_script(
            "document.querySelectorAll('details').forEach((d) => (d.open = true))"
        )
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert browser.get_log("browser") == []


@pytest.mark.parametrize(
    ("width", "dark"), [pytest.param(1280, False, marks=pytest.mark.long), (390, True)]
)
def test_axe_finds_nothing_serious(browser: Any, every_page: Path, width: int, dark: bool) -> None:
    _open(browser, every_page, width, dark)
    assert shut_out(browser) == []
