"""A panel of simulated models: planted memory is ranked down, and a panel without memory stays as
it is."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from commands_here import import_logs, leaderboard

from audit.core.records import Item
from audit.judging.ladder import Grade
from audit.memory.cells import score_cells
from audit.memory.leaderboard import Leaderboard, cautions, sentence
from audit.memory.leaderboard import leaderboard as judged
from audit.memory.leaderboard_page import document, figure, page, table
from audit.report.canvas import svg_text

N, HELD_OUT = 300, 200
ABILITIES = {
    "amber-1": 0.9,
    "beryl-1": 0.6,
    "coral-1": 0.3,
    "dune-1": 0.0,
    "ember-1": -0.3,
    "fjord-1": -0.6,
}
LEARNT = "ember-1"


def outcomes(planted: float, seed: int = 0) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """By model its right answers to both sets (Rasch). planted: share of the benchmark that
    `LEARNT` knows by heart."""
    rng = np.random.default_rng(seed)
    difficulty = [rng.normal(0, 1, n) for n in (N, HELD_OUT)]
    made = {}
    for model, ability in ABILITIES.items():
        sides = [rng.random(d.size) < 1 / (1 + np.exp(d - ability)) for d in difficulty]
        if model == LEARNT:
            sides[0] |= rng.random(N) < planted
        made[model] = (sides[0].astype(float), sides[1].astype(float))
    return made


def board_of(scores: dict[str, tuple[np.ndarray, np.ndarray]]) -> Leaderboard:
    items = {
        name: [Item(f"{name}{k}", name, "", (), -1, f"{name}{k}") for k in range(n)]
        for name, n in (("exam", N), ("unseen", HELD_OUT))
    }
    answers = {
        (model, name): {f"{name}{k}": [None if x != x else x] for k, x in enumerate(values)}
        for model, sides in scores.items()
        for name, values in zip(("exam", "unseen"), sides, strict=True)
    }
    references = {model: [score for score in scores if score != model] for model in scores}
    return judged(score_cells(items, answers, references))


def test_planted_memory_falls_and_its_interval_holds_the_score_without() -> None:
    clean, spoilt = outcomes(0.0), outcomes(0.6)
    truth = float(clean[LEARNT][0].mean())  # the same draws without the plant
    board = board_of(spoilt)
    row = next(one for one in board.rows if one.model == LEARNT)
    assert [one.model for one in board.found] == [LEARNT]
    assert row.without is not None and row.without.low <= truth <= row.without.high
    assert row.score is not None and row.score.estimate == pytest.approx(
        float(spoilt[LEARNT][0].mean())
    )
    by_truth = sorted(clean, key=lambda model: -clean[model][0].mean())
    assert (
        row.rank == 1
        and row.rank_without is not None
        and row.rank_without >= by_truth.index(LEARNT)
    )
    assert row.moved == row.rank_without - 1
    assert LEARNT in sentence(board) and [one.model for one in board.spoilt] == [LEARNT]


def test_a_gap_of_unknown_cause_has_the_p_of_the_gap_and_says_what_could_settle_it(
    tmp_path: Path,
) -> None:
    """Logs without dates: the same gap is found where they exclude that the held-out items are
    newer."""
    log, rows = tmp_path / "log.csv", {}
    write_csv(log, outcomes(0.6))
    dated = ["--held-out-date", "2024-01", "--released", *(f"{name}=2024-06" for name in ABILITIES)]
    for name, words in (("undated", []), ("dated", dated)):
        assert leaderboard([str(log), *WORDS, *words, "-o", str(tmp_path / name)]) == 0
        content = json.loads((tmp_path / name / "leaderboard.json").read_text())
        (rows[name],) = [model for model in content["models"] if model["model"] == LEARNT]
        missing = f"--held-out-date DATE --released {LEARNT}=DATE" in str(content["does_not_say"])
        assert missing == (name == "undated")
    assert rows["undated"]["grade"] == "cause_unknown" and rows["dated"]["grade"] == "found_strong"
    assert rows["undated"]["p_holm"] <= 0.05 and rows["undated"]["gap"] == rows["dated"]["gap"]


def test_a_split_by_date_needs_no_date_of_the_held_out_items(tmp_path: Path) -> None:
    """--held-out-date beside --split leaves out held-out items, so it is not proposed."""
    log = tmp_path / "log.csv"
    lines = ["model,item,correct,date"]
    for model, sides in outcomes(0.6).items():
        for date, values in zip(("2025-01", "2026-01"), sides, strict=True):
            for k, x in enumerate(values):
                lines.append(f"{model},{date}/{k},{int(x)},{date}")
    log.write_text("\n".join(lines))
    out = tmp_path / "board"
    assert leaderboard([str(log), "--split", "date=2026-01", "-o", str(out)]) == 0
    says = str(json.loads((out / "leaderboard.json").read_text())["does_not_say"])
    assert f"Missing: --released {LEARNT}=DATE" in says and "--held-out-date" not in says


@pytest.mark.parametrize("seed", range(3))
def test_the_gap_of_a_panel_with_missing_answers_uses_every_answer(seed: int) -> None:
    """If six models each lack 4 % of the answers, .96^6 = 78 % of the items are complete.

    The gap by hand is a model's mean on the benchmark minus its mean on held-out items, minus the
    mean of the same difference over the other models, over all answers.
    """
    rng = np.random.default_rng(seed)
    scores = {}
    for model, sides in outcomes(0.0, seed).items():
        scores[model] = tuple(np.where(rng.random(x.size) < 0.04, np.nan, x) for x in sides)
    gaps = {m: 100 * (np.nanmean(a) - np.nanmean(b)) for m, (a, b) in scores.items()}
    for row in board_of(scores).rows:
        others = [gap for model, gap in gaps.items() if model != row.model]
        assert row.gap is not None
        estimate, low, high = row.gap
        assert estimate == pytest.approx(gaps[row.model] - np.mean(others), abs=1.0)
        assert low < estimate < high


def test_without_memory_nobody_is_found() -> None:
    board = board_of(outcomes(0.0))
    assert not board.found and not board.doubtful and len(board.judged) == len(ABILITIES)
    unsure = len(board.undecided)
    assert unsure == sum(one.grade == "undecided" for one in board.rows) and unsure
    named = sentence(replace(board, chosen=True))
    assert f"For {unsure} of them the data are too few to exclude one." in named
    assert "--references names clean ones." in cautions(board)[0]
    for row in board.rows:
        assert row.without is not None and row.score is not None
        assert row.without.low <= row.score.estimate <= row.without.high


@pytest.mark.parametrize("planted", [0.0, 0.6])
def test_the_headline_begins_with_the_undecided_models_if_they_are_most(planted: float) -> None:
    board = board_of(outcomes(planted))
    assert board.judged and board.blind_below
    n, below = len(board.judged), f"{board.blind_below:.1f} points"
    for least in (2, 4):  # so many are undecided, the others cleared or found
        rows = []
        for k, row in enumerate(sorted(board.rows, key=lambda one: one.found)):
            grade = Grade.UNDECIDED if k < least else Grade.CLEARED
            rows.append(row if row.found else replace(row, grade=grade))
        made = replace(board, rows=tuple(rows))
        first = sentence(made).startswith(f"No decision for {least} of {n} ")
        assert first == (2 * least > n) == (below in sentence(made))
        assert not sentence(replace(made, chosen=True)).startswith("No decision")


@pytest.mark.parametrize("found", [1, 2, 3, 4, 6])
def test_the_headline_names_the_models_that_are_found_up_to_three(found: int) -> None:
    board = board_of(outcomes(0.0))
    rows = []
    for k, row in enumerate(board.rows):
        rows.append(replace(row, grade=Grade.FOUND_STRONG if k < found else Grade.CLEARED))
    headline = sentence(replace(board, rows=tuple(rows)))
    named = [row.model for row in rows if row.model in headline]
    if found <= 3:
        assert named == [row.model for row in rows[:found]]
    else:
        assert len(named) == 1 and f"{found} score higher" in headline
    assert headline.startswith("Of 6 judged models")


def test_the_page_explains_every_mark_of_its_figure() -> None:
    board = board_of(outcomes(0.6))
    html = page(
        board, {"leaderboard": "<svg></svg>"}, references=(), families=False, files=(), command=""
    )
    marks = ("Circles", "hollow", "Square", "Grey bar", "Diamond", "Triangle")
    assert [mark for mark in marks if mark not in html] == []


def test_a_panel_without_named_references_says_which_gaps_it_does_not_see() -> None:
    """A model that learnt two thirds widens the interval of the others: it is one of their five
    references."""
    clean, spoilt = board_of(outcomes(0.0)), board_of(outcomes(0.6))
    widths = sorted(high - low for _, low, high in (row.gap for row in clean.judged if row.gap))
    assert clean.blind_below == pytest.approx(sum(widths[2:4]) / 4)  # the median of six, halved
    assert spoilt.blind_below > 1.2 * clean.blind_below
    assert f"{clean.blind_below:.1f} points" in cautions(clean)[0]
    named = replace(clean, chosen=True)
    assert "Low power" not in cautions(named)[0] and named.blind_below == clean.blind_below
    html = page(
        clean, {"leaderboard": "<svg></svg>"}, references=(), families=False, files=(), command=""
    )
    assert f"{clean.blind_below:.1f} points" in html


def test_a_model_that_cannot_be_judged_says_why_and_has_no_rank() -> None:
    scores = outcomes(0.0)
    lost = scores["dune-1"][0].copy()
    lost[::2] = np.nan  # half of the answers cannot be read
    board = board_of(scores | {"dune-1": (lost, scores["dune-1"][1])})
    row = next(one for one in board.rows if one.model == "dune-1")
    assert (row.rank, row.rank_without, row.without) == (None, None, None) and row.why
    assert sorted(one.rank or 0 for one in board.judged) == [1, 2, 3, 4, 5]


def test_page_table_and_document_hold_every_model_and_escape_names() -> None:
    scores = {f"<b>{model}": sides for model, sides in outcomes(0.6).items()}
    board = board_of(scores)
    html = page(
        board,
        {"leaderboard": "<svg></svg>"},
        references=(),
        families=False,
        files=(),
        command="a <i> b",
    )
    assert "<b>" not in html and "&lt;b&gt;amber-1" in html and "a &lt;i&gt; b" in html
    assert table(board).count("\n") == 1 + len(scores)
    content = document(board, ())
    assert len(content["models"]) == len(scores) and json.dumps(content, allow_nan=False)
    assert svg_text(figure(board)) == svg_text(figure(board))


def write_csv(path: Path, scores: dict[str, tuple[np.ndarray, np.ndarray]], skip: str = "") -> None:
    lines = ["model,item,right,benchmark"]
    for model, sides in scores.items():
        for name, values in zip(("exam", "unseen"), sides, strict=True):
            kept = values[: len(values) // 2] if model == skip else values
            lines += [f"{model},{name}{k},{int(x)},{name}" for k, x in enumerate(kept)]
    path.write_text("\n".join(lines))


WORDS = ["--map", "correct=right", "--benchmark", "exam", "--held-out", "unseen"]


def test_the_command_agrees_with_an_import_of_the_same_logs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three models judged against three named references: score, gap and score without memory are
    the import's."""
    log, run = tmp_path / "log.csv", tmp_path / "run"
    write_csv(log, outcomes(0.6))
    named = ["--references", "amber-1", "beryl-1", "coral-1"]
    assert import_logs([str(log), *WORDS, *named, "-o", str(run)]) == 0
    capsys.readouterr()
    assert leaderboard([str(log), *WORDS, *named, "-o", str(tmp_path / "board"), "--json"]) == 0
    printed = capsys.readouterr()
    content = json.loads(printed.out)
    assert content == json.loads((tmp_path / "board" / "leaderboard.json").read_text())
    rows = {model["model"]: model for model in content["models"]}
    cells = json.loads((run / "report" / "verdict.json").read_text())["cells"]
    assert [one["model"] for one in cells] == ["dune-1", "ember-1", "fjord-1"]
    for cell in cells:
        row, (gap,) = (
            rows[cell["model"]],
            [indicator for indicator in cell["indicators"] if indicator["name"] == "gap"],
        )
        without = cell["without_memory"]["estimate"]["without"]
        assert row["score"] == pytest.approx(cell["score"], abs=1e-5)
        assert row["gap"] == pytest.approx(gap["estimate"], abs=1e-4)
        assert row["without_low"] == pytest.approx(without["low"], abs=1e-5)
    assert (tmp_path / "board" / "leaderboard.html").is_file()
    shown = re.findall(
        r"(exam\d+) \(the log has no text\)", (run / "report/report.html").read_text()
    )
    assert len(set(shown)) >= 3  # the log has names alone, and the page shows them


def test_a_model_with_half_of_the_items_is_a_row_without_a_rank(tmp_path: Path) -> None:
    log, out = tmp_path / "log.csv", tmp_path / "board"
    write_csv(log, outcomes(0.0), skip="coral-1")
    assert leaderboard([str(log), *WORDS, "-o", str(out)]) == 0
    (row,) = [
        model
        for model in json.loads((out / "leaderboard.json").read_text())["models"]
        if model["model"] == "coral-1"
    ]
    assert row["rank"] is None and "150 of 300" in row["why"]


def test_what_a_leaderboard_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log.csv"
    scores = outcomes(0.0)
    write_csv(log, {name: scores[name] for name in ("amber-1", "beryl-1")})
    assert leaderboard([str(log), *WORDS[:4], "-o", str(tmp_path / "a")]) == 1
    assert "--held-out" in capsys.readouterr().err
    assert leaderboard([str(log), *WORDS, "-o", str(tmp_path / "a")]) == 1
    assert "2" in capsys.readouterr().err and not (tmp_path / "a").exists()


def test_too_few_references_and_a_missing_file_are_refused_before_anything_is_computed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, board = tmp_path / "log.csv", str(tmp_path / "board")
    write_csv(log, outcomes(0.0))
    named = ["--references", "amber-1", "beryl-1"]
    assert leaderboard([str(log), *WORDS, *named, "-o", board]) == 1
    assert "is 2 (amber-1, beryl-1). Expected 3" in capsys.readouterr().err
    missing = [str(log), *WORDS[:4], "--held-out", "unsen.csv", "-o", board]
    assert leaderboard(missing) == 1
    assert "unsen.csv does not exist" in capsys.readouterr().err
    assert leaderboard([str(tmp_path / "lgo.csv"), "-o", board]) == 1  # before the held-out set
    assert f"lgo.csv does not exist. Did you mean {log}?" in capsys.readouterr().err


@pytest.mark.parametrize("stated", [[], ["--options", "0"]])
def test_a_stated_number_of_options_ends_the_note_that_asks_for_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], stated: list[str]
) -> None:
    log = tmp_path / "log.csv"
    write_csv(log, outcomes(0.0))
    assert leaderboard([str(log), *WORDS, *stated, "-o", str(tmp_path / "board")]) == 0
    assert ("--options" in capsys.readouterr().err) == (not stated)
