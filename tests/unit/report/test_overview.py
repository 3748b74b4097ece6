"""The index page of a folder of runs: every run with its verdict, and what is no run with the
reason."""

import json
import re
from html import unescape
from pathlib import Path

import panels
import pytest
from audit_here import undrawn
from commands_here import overview
from governed import Capsys, rewrite

from audit.commands.open import Line, write_overview
from audit.core.number_text import percent
from audit.shards.panel import write_panel
from audit.sweep.report import REPORT
from audit.sweep.vocabulary import VERDICTS

ASKED = panels.outcomes_of(1, 8)
FINISHED = {"status": "finished", "started": "2026-01-02T03:04:05+00:00"}


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with hostile names, one that was stopped, another program's folder, a broken
    one, a bad panel."""
    folder = tmp_path_factory.mktemp("outputs")
    outcomes = panels.hostile(ASKED)
    run = panels.run_of(folder / "a 'run' <b>&\"%23?#", outcomes, outcomes, **FINISHED)
    with undrawn():
        REPORT.build([run], run / "report", n_resamples=200)
    panels.run_of(
        folder / "deep" / "stopped",
        outcomes[:-5],
        outcomes,
        status="failed",
        started="2026-01-01T00:00:00+00:00",
    )
    (folder / "photos").mkdir()
    odd = '{"fingerprint": "f", "config": {}, "models": 3, "settings": [1]}'
    for name, text in {"app": '{"name": "<script>x</script>"}', "list": "[]", "odd": odd}.items():
        (folder / name).mkdir()
        (folder / name / "manifest.json").write_text(text)
    (folder / "panel").mkdir()
    (folder / "panel" / "panel.json").write_text("{")
    return folder


def rows_of(page: str) -> list[str]:
    body = page.split("<tbody>")[1].split("</tbody>")[0]
    return [unescape(re.sub(r"<[^>]*>", "|", row)) for row in body.split("<tr>")[1:]]


def test_of_a_run_its_report_is_opened(outputs: Path, capsys: Capsys) -> None:
    run = next(outputs.glob("a */"))
    assert overview([str(run), "--no-browser"]) == 0
    assert (
        Path(capsys.readouterr().out.strip()) == run / "report" / "report.html"
        and not (run / "index.html").exists()
    )


def test_every_run_is_a_row_and_what_is_none_has_its_reason(outputs: Path) -> None:
    page = write_overview(outputs).read_text(encoding="utf-8")
    rows = {row.strip("|").split("|")[0]: row for row in rows_of(page)}
    cell = json.loads(next(outputs.glob("a */report/verdict.json")).read_text())["cells"][0]
    (whole,) = (row for name, row in rows.items() if name.startswith("a 'run'"))
    assert VERDICTS[cell["verdict"]].name in whole and percent(cell["score"], whole=False) in whole
    assert f"|all {len(ASKED)}|" in whole and "2026-01-02 03:04" in whole
    assert (
        f"{len(ASKED) - 5} of {len(ASKED)}, failed" in rows["deep/stopped"]
        and "none yet" in rows["deep/stopped"]
    )
    assert (
        "no run of this program" in rows["photos"]
        and "manifest.json" in rows["app"]
        and "manifest" in rows["odd"]
    )
    assert "manifest" in rows["list"]
    assert "suite or panel" in rows["panel"] and "verdict.json is missing" in rows["panel"]
    assert (
        "<script>x" not in page and "__ran = 1</script>" not in page and page.count("<script") == 1
    )
    # A link leads to the report whatever the run is called.
    hrefs = re.findall(r'href="([^"]*report\.html)"', page)
    assert hrefs == ["a%20%27run%27%20%3Cb%3E%26%22%2523%3F%23/report/report.html"]


def test_a_verdict_that_is_none_of_ours_is_said(tmp_path: Path) -> None:
    run = panels.run_of(tmp_path / "run", ASKED, ASKED, **FINISHED)
    REPORT.build([run], run / "report", n_resamples=50)
    rewrite(
        run / "report" / "verdict.json", lambda plain: plain["cells"][0].update(verdict="guilty")
    )
    write_panel(tmp_path / "panel", [run])
    (row,) = (
        row
        for row in rows_of(write_overview(tmp_path).read_text())
        if row.startswith(("|run", "||run"))
    )
    assert "guilty" in row and Line("x").word is None


def test_a_run_of_many_models_is_one_row_with_each_verdict_folded(tmp_path: Path) -> None:
    """Five models: their number in place of the names, one tally, and five lines below it."""
    outcomes = panels.outcomes_of(5, 8)
    run = panels.run_of(tmp_path / "set", outcomes, outcomes, **FINISHED)
    with undrawn():
        REPORT.build([run], run / "report", n_resamples=50)
    (row,) = rows_of(write_overview(tmp_path).read_text(encoding="utf-8"))
    cells = json.loads((run / "report" / "verdict.json").read_text())["cells"]
    assert len({cell["model"] for cell in cells}) == 5 and "|5 models|" in row
    assert row.count("without memory") == 0 and "5 verdicts" in row
    assert all(f"{cell['model']} on" in row for cell in cells)


def test_a_suite_in_the_folder_itself_is_named_and_listed_once(tmp_path: Path) -> None:
    run = panels.run_of(tmp_path / "run", ASKED, ASKED, **FINISHED)
    write_panel(tmp_path, [run])
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "report.html").write_text("a page")
    page = write_overview(tmp_path).read_text()
    assert f">{tmp_path.name}</a>" in page and ">report</a>" not in page and len(rows_of(page)) == 2


def test_the_command_prints_the_page_and_asks_no_browser(tmp_path: Path, capsys: Capsys) -> None:
    assert overview([str(tmp_path), "--no-browser"]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "index.html")
    assert (tmp_path / "index.html").is_file()
    assert (
        overview([str(tmp_path / "nowhere"), "--no-browser"]) == 1
        and "nowhere" in capsys.readouterr().err
    )
