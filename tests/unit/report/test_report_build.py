"""From shards to files: the same bytes, one panel, a page whose policy names its own script."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import re
from collections import Counter
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import jsonschema
import panels
import pytest

from audit.errors import DataError, ShardError
from audit.report.__main__ import main
from audit.report.accuracy import model_scores
from audit.report.build import build_report, check_panel, run_facts, write_report
from audit.report.page import ONE_RUN
from audit.report.rows import ShardRows
from audit.shards.read import load_cells
from audit.sweep.columns import SCHEMA
from audit.sweep.design import Arm


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("panel")
    runs = [
        panels.run_of(folder / "run_a", [o for o in panels.outcomes_of(2, 30) if o.model == "model-00"]),
        panels.run_of(folder / "run_b", [o for o in panels.outcomes_of(2, 30) if o.model == "model-01"]),
    ]
    build_report(runs, folder / "report", n_resamples=200)
    return folder


def _read(table: Path) -> list[dict[str, str]]:
    with table.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_two_runs_become_one_panel_and_the_json_fits_its_schema(built: Path) -> None:
    verdict = json.loads((built / "report" / "verdict.json").read_text())
    assert [c["model"] for c in verdict["cells"]] == ["model-00", "model-01"]
    schema = json.loads((files("audit.verdict") / "verdict.schema.json").read_text())
    jsonschema.validate(verdict, schema)
    tables = {p.name for p in (built / "report" / "tables").iterdir()}
    assert {"table1_models.csv", "table2_models_by_router.csv", "table3_routers.csv", "settings.csv"} <= tables
    pictures = {p.name for p in (built / "report" / "figures").iterdir()}
    assert len([p for p in pictures if p.endswith(".svg")]) == len([p for p in pictures if p.endswith(".png")]) == 5
    assert not list((built / "report").rglob("*.tmp"))


def test_the_same_shards_and_seed_give_the_same_bytes(built: Path) -> None:
    build_report([built / "run_a", built / "run_b"], built / "again", n_resamples=200)
    for path in sorted((built / "report").rglob("*")):
        if path.is_file():
            assert path.read_bytes() == (built / "again" / path.relative_to(built / "report")).read_bytes(), path.name


def test_the_papers_numbers_are_of_replicate_0(built: Path) -> None:
    """Counted from the outcomes themselves: two clean runs were made, the paper's tables know the first alone."""
    right = {o.key: o.correct for o in panels.outcomes_of(2, 30)}
    assert {key.replicate for key in right} == {0, 1}
    rows = _read(built / "report" / "tables" / "table2_models_by_router.csv")
    assert len(rows) == 2 * 3
    for row in rows:
        model, r = row["model"], int(row["routers"])
        counts: Counter[tuple[bool | None, bool | None]] = Counter()
        for key, noisy in right.items():
            if (key.model, key.arm, key.level) == (model, Arm.NOISY_REWRITE, r):
                counts[right[replace(key, arm=Arm.FORWARD_FULL, level=1)], noisy] += 1
        assert (int(row["improve"]), int(row["degrade"])) == (counts[False, True], counts[True, False])
        answered = sum(n for pair, n in counts.items() if None not in pair)
        assert (int(row["n"]), int(row["left_out"])) == (answered, 30 - answered)
        assert float(row["clean_accuracy"]) == pytest.approx((counts[True, True] + counts[True, False]) / answered)
    verdict = json.loads((built / "report" / "verdict.json").read_text())
    assert [(r["improve"], r["degrade"]) for r in verdict["paper"]["cells"]] == [
        (int(row["improve"]), int(row["degrade"])) for row in rows
    ]


def test_figure_3_shows_the_first_run_and_the_score_every_run(tmp_path: Path) -> None:
    outcomes = panels.outcomes_of(1, 40)
    (cell,) = load_cells(panels.run_of(tmp_path, outcomes), SCHEMA)
    clean = [[bool(o.correct) for o in outcomes if (o.arm, o.routers, o.replicate) == (Arm.FORWARD_FULL, 1, k)]
             for k in (0, 1)]  # fmt: skip
    assert sum(clean[0]) != sum(clean[1])  # or this shows nothing
    first, every = model_scores(cell, "m", first_only=True).clean, model_scores(cell, "m").clean
    assert first is not None and every is not None
    assert first.value == pytest.approx(sum(clean[0]) / 40)
    assert every.value == pytest.approx((sum(clean[0]) + sum(clean[1])) / 80)


def test_the_page_says_which_run_the_papers_numbers_are_of(built: Path, tmp_path: Path) -> None:
    page = (built / "report" / "report.html").read_text(encoding="utf-8")
    assert page.count(ONE_RUN) == 4 + 1  # Figures 2 to 5, and the tables
    run = panels.run_of(tmp_path / "run", panels.outcomes_of(1, 4, clean_replicates=1))
    write_report([run], tmp_path / "report", panels.verdict_of([run], seed=1), load_cells(run, SCHEMA), seed=1)
    assert ONE_RUN not in (tmp_path / "report" / "report.html").read_text(encoding="utf-8")


def test_p_is_called_one_sided_beside_its_two_sided_interval(built: Path) -> None:
    header = next(iter(_read(built / "report" / "tables" / "contrasts.csv")))
    assert {"ci_low", "ci_high", "p (one-sided)", "p_adjusted (one-sided)"} <= set(header)
    assert not {"p", "p_adjusted"} & set(header)
    page = (built / "report" / "report.html").read_text(encoding="utf-8")
    assert page.count('<th class="n">p (one-sided)</th>') == page.count("the interval is two-sided, so p can be") == 2
    assert page.count("Adjusted p</dt>") == 0


def test_the_policy_allows_one_script_and_no_request(built: Path) -> None:
    page = (built / "report" / "report.html").read_text(encoding="utf-8")
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy is not None
    allowed = policy[1].replace("&#39;", "'")
    assert allowed.startswith("default-src 'none'")
    assert "unsafe" not in allowed
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert len(scripts) == 1
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in allowed
    assert not re.search(r"(src|href)=[\"'](?!#|data:)", page.replace("http://www.w3.org", ""))
    assert " style=" not in page
    assert not re.search(r"\bon[a-z]+=", page.split("<script", 1)[0])
    assert ".innerHTML" not in page


def test_hostile_text_is_escaped_everywhere(tmp_path: Path) -> None:
    run = panels.run_of(tmp_path / "run", panels.hostile(panels.outcomes_of(1, 4)))
    verdict = panels.verdict_of([run], seed=1)
    write_report([run], tmp_path / "report", verdict, load_cells(run, SCHEMA), seed=1)
    page = (tmp_path / "report" / "report.html").read_text(encoding="utf-8")
    assert "<script>window" not in page
    assert "<img" not in page
    assert "{{ 7*7 }}" in page  # printed, not evaluated
    assert page.count("<script") == page.count("</script>")


def test_a_model_in_two_revisions_is_refused(tmp_path: Path) -> None:
    rows = panels.outcomes_of(1, 3)
    runs = [
        panels.run_of(tmp_path / "a", rows),
        panels.run_of(tmp_path / "b", [replace(o, model_revision="other") for o in rows]),
    ]
    with pytest.raises(DataError, match="2 revisions"):
        check_panel(runs)


def test_a_model_in_two_runs_is_refused(tmp_path: Path) -> None:
    runs = [panels.run_of(tmp_path / name, panels.outcomes_of(1, 3)) for name in ("a", "b")]
    with pytest.raises(DataError, match="in several runs"):
        check_panel(runs)


def test_rows_beyond_the_limit_are_left_out_and_said(tmp_path: Path) -> None:
    run = panels.run_of(tmp_path / "run", panels.outcomes_of(2, 20))
    verdict = panels.verdict_of([run], seed=1)
    write_report([run], tmp_path / "report", verdict, load_cells(run, SCHEMA), seed=1, max_rows=150)
    page = (tmp_path / "report" / "report.html").read_text(encoding="utf-8")
    assert re.search(r"This page lists \d+ of 320 answers", page)
    head = re.search(r'id="drill-head">(.*?)</script>', page)
    assert head is not None
    listed = json.loads(head[1])["rows"]
    assert 0 < listed <= 150
    assert listed % 16 == 0  # whole questions: two models, eight settings


def test_the_command_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 1
    assert "No shards" in capsys.readouterr().err
    with pytest.raises(ShardError):
        build_report([tmp_path], tmp_path / "report")
    with pytest.raises(DataError):
        build_report([], tmp_path / "report")


def test_facts_of_a_run(tmp_path: Path) -> None:
    assert run_facts(tmp_path).main == ()
    roles = {"worker": {"calls": 3, "prompt_tokens": 5}, "router": {"calls": 4}}
    manifest = {"fingerprint": "f00", "status": "finished", "cost": {"m": {"direct": roles}}, "config": {"a": {"b": 1}}}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    facts = run_facts(tmp_path)
    assert ("Cost, m", "7 calls, 5 prompt tokens") in facts.main
    assert ("config.a.b", "1") in facts.more
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(DataError, match="cannot be read"):
        run_facts(tmp_path)


def test_rows_of_one_cell_are_those_of_a_full_pass(tmp_path: Path) -> None:
    run = panels.run_of(tmp_path / "run", panels.outcomes_of(2, 6))
    rows = ShardRows((run,))
    assert len(list(rows)) == len(list(rows)) == 2 * 6 * 8
    ids = sorted({r.question_id for r in rows})[:2]
    found = {(r.question_id, r.arm, r.routers, r.replicate): r for r in rows.of_cell("model-01", "synthetic", ids)}
    expected = {
        (r.question_id, r.arm, r.routers, r.replicate): r
        for r in rows
        if r.model == "model-01" and r.question_id in ids
    }
    assert found == expected
    assert len(found) == 2 * 8
