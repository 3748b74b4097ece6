"""`--held-out-date FROM..TO`: the held-out items of a table that are dated inside it, and no others.
`--split COLUMN=DATE`: the items from a date on are the held-out ones."""

import csv
import json
import runpy
import shutil
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path

import pytest
from commands_here import import_logs, leaderboard
from hypothesis import given
from hypothesis import strategies as st

from audit.benchmarks.fresh import day_of, is_from, is_newer, within
from audit.core.errors import ConfigError, DataError
from audit.imports.record import Wanted
from audit.imports.table import read_table

ROOT = Path(__file__).parents[3]
DATA = ROOT.parent / "shared" / "data" / "livecodebench" / "performances_generation_2024-04-17.json"
MONTHS = [f"2023-{month:02}" for month in range(1, 13)]
DAYS = st.integers(0, 364).map(lambda k: (date(2023, 1, 1) + timedelta(days=k)).isoformat())


def write(path: Path, rows: list[tuple[str, ...]], *more: str) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("model", "item", "correct", "benchmark", *more), *rows])
    return path


@given(st.lists(DAYS, min_size=1, max_size=12), st.sampled_from(MONTHS), st.sampled_from(MONTHS))
def test_rows_of_the_held_out_set_are_kept_by_their_day_and_others_whatever_theirs(
    tmp_path_factory: pytest.TempPathFactory, days: list[str], month: str, other: str
) -> None:
    first, last = sorted((month, other))
    rows = []
    for k, day in enumerate(days):
        rows += [("m", f"q{k}", str(k % 2), name, day) for name in ("new", "seen")]
    path = write(tmp_path_factory.mktemp("w") / "log.csv", rows, "date")
    log = read_table(path, "csv", Wanted(window=("new", f"{first}..{last}")))
    pairs = [(outcome.benchmark, outcome.sample) for outcome in log.outcomes]
    inside = [k for k, day in enumerate(days) if first <= day[: len("2023-01")] <= last]
    assert [item for name, item in pairs if name == "new"] == [f"q{k}" for k in inside]
    assert [item for name, item in pairs if name == "seen"] == [f"q{k}" for k in range(len(days))]
    noted = [int(note.split()[0]) for note in log.notes]
    assert sum(noted) == len(days) - len(inside)


@given(DAYS, DAYS, DAYS)
def test_a_day_is_within_a_span_that_begins_no_later_and_ends_no_earlier(
    day: str, first: str, last: str
) -> None:
    first, last = sorted((first, last))
    inside = not is_newer(first, day) and not is_newer(day, last)
    assert within(day, f"{first}..{last}") == inside


def test_a_table_without_dates_is_whole_and_a_cell_that_holds_none_is_refused(
    tmp_path: Path,
) -> None:
    wanted = Wanted(window=("new", "2023-09..2023-11"))
    bare = write(tmp_path / "bare.csv", [("m", "q", "1", "new")])
    assert len(list(read_table(bare, "csv", wanted).outcomes)) == 1  # the user states the dates
    odd = write(tmp_path / "odd.csv", [("m", "q", "1", "new", "last autumn")], "date")
    with pytest.raises(DataError, match="last autum"):
        list(read_table(odd, "csv", wanted).outcomes)
    seen = write(tmp_path / "seen.csv", [("m", "q", "1", "seen", "")], "date")
    assert len(list(read_table(seen, "csv", wanted).outcomes)) == 1


def test_an_import_keeps_the_window_and_its_end_is_the_date(tmp_path: Path) -> None:
    rows = []
    for k in range(40):
        day = f"2023-{9 + k % 4:02}-15"
        rows += [("m", f"{name}{k}", str(k % 2), name, day) for name in ("seen", "new")]
    log = write(tmp_path / "log.csv", rows, "date")
    words = [str(log), "-o", str(tmp_path / "run"), "--benchmark", "seen", "--held-out", "new"]
    assert import_logs([*words, "--held-out-date", "2023-09..2023-11"]) == 0
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["benchmark"]["new"]["n"] == 30  # September, October, November of four months
    assert manifest["benchmark"]["seen"]["n"] == 40
    assert "2023-09" in json.dumps(manifest["config"])


def split_table(path: Path, days: list[str], *, benchmark: str = "") -> Path:
    """Write four models' answers to items with these days in the column `contest`."""
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["model", "item", "correct", "contest", *(["benchmark"] if benchmark else [])])
        for m in range(4):
            for k, day in enumerate(days):
                row = [f"m{m}", f"q{k}", str((k * 7 + m * 3) % 5 % 2), f"{day}T00:00:00"]
                out.writerow([*row, *([benchmark] if benchmark else [])])
    return path


@given(st.lists(DAYS, min_size=1, max_size=12), DAYS | st.sampled_from(MONTHS))
def test_a_split_sends_each_row_to_one_side_by_its_day(
    tmp_path_factory: pytest.TempPathFactory, days: list[str], cut: str
) -> None:
    path = split_table(tmp_path_factory.mktemp("s") / "log.csv", days)
    wanted = Wanted(columns={"date": "contest"}, window=("new", f"{cut}.."), split=cut)
    sides = {outcome.sample: outcome for outcome in read_table(path, "csv", wanted).outcomes}
    for k, day in enumerate(days):
        assert sides[f"q{k}"].benchmark == ("new" if day[: len(cut)] >= cut else "log")
        assert sides[f"q{k}"].date == day


@given(
    st.datetimes(datetime(2000, 1, 2), datetime(2030, 1, 1)),
    st.integers(-14 * 60, 14 * 60),
    st.sampled_from("T "),
)
def test_a_time_with_a_zone_is_on_its_day_in_utc(moment: datetime, minutes: int, sep: str) -> None:
    zoned = moment.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    assert day_of(zoned.isoformat(sep)) == zoned.astimezone(UTC).date().isoformat()
    assert day_of(f" {moment.isoformat(sep)} ") == moment.date().isoformat()


@pytest.mark.parametrize(
    "cell",
    ["2023-08-155", "2023-08-15 to 2024-10-15", "2023-08-15T", "2023-02-30", "2023-08-15 Monday"],
)
def test_what_begins_like_a_day_is_no_day(tmp_path: Path, cell: str) -> None:
    table = tmp_path / "log.csv"
    table.write_text(f'model,item,correct,date\nm,q1,1,"{cell}"\nm,q2,0,2023-10-01\n')
    wanted = Wanted(columns={"date": "date"}, window=("new", "2023-09.."), split="2023-09")
    with pytest.raises(DataError, match=cell):
        list(read_table(table, "csv", wanted).outcomes)


def test_a_span_of_days_over_the_split_is_refused(tmp_path: Path) -> None:
    table = tmp_path / "log.csv"
    table.write_text("model,item,correct,date\nm,q1,1,2023-08-15..2023-10-15\n")
    wanted = Wanted(columns={"date": "date"}, window=("new", "2023-09.."), split="2023-09")
    with pytest.raises(DataError, match="ends later"):
        list(read_table(table, "csv", wanted).outcomes)


@given(DAYS, DAYS)
def test_a_month_is_on_one_side_of_a_day_or_refused(day: str, cut: str) -> None:
    month = day[: len("2023-01")]
    if month == cut[: len(month)] and not cut.endswith("-01"):
        with pytest.raises(ConfigError):
            is_from(month, cut)
    else:
        assert is_from(month, cut) == (month >= cut[: len(month)])


def test_a_split_of_one_table_is_the_import_of_two(tmp_path: Path) -> None:
    """60 items before September, 40 from it on: items, answers and dates are those of two files."""
    old = [f"2023-0{1 + k % 8}-10" for k in range(60)]
    new = [f"2023-{9 + k % 3:02}-20" for k in range(40)]
    whole = split_table(tmp_path / "whole.csv", old + new)
    lines = whole.read_text().splitlines()
    later = [line for line in lines[1:] if line.split(",")[3] >= "2023-09"]
    earlier = [line for line in lines if line not in later]
    (tmp_path / "seen.csv").write_text("\n".join(earlier))
    (tmp_path / "new.csv").write_text("\n".join([lines[0], *later]))
    words = ["--benchmark", "exam", "--judge", "m0", "--released", "2024", "m1=2022", "-o"]
    single, two = tmp_path / "one", tmp_path / "two"
    assert import_logs([str(whole), "--split", "contest=2023-09", *words, str(single)]) == 0
    both = [str(tmp_path / "seen.csv"), "--held-out", str(tmp_path / "new.csv")]
    span = ["--held-out-date", "2023-09-20..2023-11-20"]
    assert import_logs([*both, *span, *words, str(two)]) == 0
    manifests = [json.loads((run / "manifest.json").read_text()) for run in (single, two)]
    assert [m["benchmark"]["exam"]["n"] for m in manifests] == [60, 60]
    assert [m["benchmark"]["held_out"]["n"] for m in manifests] == [40, 40]
    assert manifests[0]["analysis"] == manifests[1]["analysis"]
    assert manifests[0]["config"]["read_by"]["split"] == "contest=2023-09"
    cells = [
        json.loads((run / "report/verdict.json").read_text())["cells"] for run in (single, two)
    ]
    assert cells[0] == cells[1]


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--split", "contest=2023-13"], "2023-13"),
        (["--split", "contest=2023-01..2023-05"], "single date"),
        (["--split", "contest"], "COLUMN=DATE"),
        (["--split", "day=2023-09"], "no column 'day'"),
        (["--split", "contest=2024"], "contest=2023-07-15"),  # the middle of what there is
        (["--split", "contest=2022"], "contest=2023-07-15"),
        (["--split", "item=2023-09"], "'q0'"),
        (["--split", "contest=2023-05", "--held-out", "new"], "one of them"),
    ],
)
def test_a_split_that_cannot_be_made_is_refused_with_what_to_type(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], named: str
) -> None:
    log = split_table(tmp_path / "log.csv", [f"2023-{1 + k % 12:02}-15" for k in range(60)])
    for command in (import_logs, leaderboard):
        assert command([str(log), *words, "-o", str(tmp_path / "run")]) == 1
        assert named in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_split_takes_one_benchmark_of_a_table_and_one_date_of_an_item(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    days = [f"2023-{1 + k % 12:02}-15" for k in range(60)]
    log = split_table(tmp_path / "log.csv", days, benchmark="leet")
    with log.open("a") as file:
        file.write("m0,other,1,2023-10-15,atcoder\n")
    words = [str(log), "--split", "contest=2023-07", "-o", str(tmp_path / "run")]
    assert import_logs(words) == 1
    assert "--benchmark leet" in capsys.readouterr().err
    assert import_logs([*words, "--benchmark", "leet"]) == 0
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert [manifest["benchmark"][name]["n"] for name in ("leet", "held_out")] == [30, 30]
    assert "1 rows" in capsys.readouterr().out
    lines = split_table(tmp_path / "moved.csv", days).read_text().splitlines()
    lines[1] = lines[1].replace("2023-01-15", "2023-09-15")  # one model's first row
    (tmp_path / "moved.csv").write_text("\n".join(lines))
    assert import_logs([str(tmp_path / "moved.csv"), *words[1:3], "-o", str(tmp_path / "b")]) == 1
    assert "'q0'" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.skipif(not DATA.exists(), reason="LiveCodeBench's answers are not here")
def test_livecodebenchs_items_that_are_no_newer_than_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The figures of docs/findings/livecodebench.md on this window, with its own references."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(DATA, "performances_generation.json")
    runpy.run_path(str(ROOT / "docs/do/livecodebench_tables.py"), run_name="__main__")
    page = (ROOT / "docs/findings/livecodebench.md").read_text()
    (command,) = (line for line in page.splitlines() if line.startswith("audit leaderboard"))
    references = command.partition("--references ")[2].split()
    names = ("33b-Base", "33b-Ins", "6.7b-Base", "6.7b-Ins")
    dates = [f"DSCoder-{name}=2023-11" for name in names]
    words = ["leetcode.csv", "-o", "board", "--benchmark", "before", "--split", "date=2023-09"]
    words += ["--held-out-date", "2023-09..2023-11"]
    words += ["--released", *dates, "WCoder-33B-V1.1=2024-01", "--references", *references]
    assert leaderboard(words) == 0
    board = json.loads(Path("board/leaderboard.json").read_text())
    assert board["n_held_out"] == 50
    rows = {row["model"]: row for row in board["models"]}
    named = [name for name, row in rows.items() if row["verdict"] == "gap_to_fresh_items"]
    assert set(named) == {
        "DSCoder-33b-Base",
        "DSCoder-33b-Ins",
        "DSCoder-6.7b-Base",
        "WCoder-33B-V1.1",
    }
    judged = rows["DSCoder-33b-Ins"]
    keys = ("without_memory", "without_low", "without_high")
    figures = [round(100 * judged[key], 1) for key in keys]
    assert figures == [22.0, 8.8, 36.6]
    assert "22.0 % [8.8, 36.6]" in page
