"""Trends over versions: what is joined, what is a change, and how often a series that never changed
is accused."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands_here import registry as main
from governed import Capsys
from registered_runs import NOW, EditedRun

from audit.core.errors import ConfigError
from audit.judging.instrument import Indicator
from audit.registry.database import Registry
from audit.registry.entry import Entry, read_entry
from audit.registry.store import add, cell_records
from audit.registry.trends import Series, floors_of, series_of
from audit.statistics.versions import change_tests

STARTS = [True] + [False] * 29
Versions = Callable[..., list[Entry]]


def test_a_version_of_unknown_error_is_not_tested() -> None:
    assert change_tests([0.1, 0.5], [0.01, float("nan")], [True, False]) == [None, None]


@pytest.mark.parametrize("shared", [0.0, 0.7])
def test_a_series_that_never_changed_is_rarely_accused_however_long(shared: float) -> None:
    """Thirty versions, 1,000 series: at most 5 % (+ 3 standard errors of the simulation) are ever
    accused. Without paying for the looks it is three in four where versions share nothing. shared:
    the correlation of versions that were asked the same questions."""
    rng = np.random.default_rng(7)
    draws = 0.03 * (
        np.sqrt(shared) * rng.normal(size=(1000, 1))
        + np.sqrt(1 - shared) * rng.normal(size=(1000, 30))
    )
    looks = [[test for test in change_tests(row, [0.03] * 30, STARTS) if test] for row in draws]
    accused = np.mean([any(test.changed for test in row) for row in looks])
    naive = np.mean([any(test.pvalue <= 0.05 for test in row) for row in looks])
    assert accused <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 1000)
    if shared == 0:
        assert naive > 0.4 and accused > 0.005


def test_a_change_is_found_once_and_becomes_the_new_level() -> None:
    estimates = [0.1, 0.11, 0.09, 0.3, 0.31, 0.29]
    looks = change_tests(estimates, [0.02] * 6, [True] + [False] * 5)
    assert [look.changed for look in looks if look] == [False, False, True, False, False]
    assert looks[5] is not None and looks[5].baseline == pytest.approx(0.305) and looks[5].look == 5


def test_power_at_the_tenth_version() -> None:
    """A rise of four standard errors of one version, at its tenth: found in most series (level .05
    / 90 = .00056)."""
    rng = np.random.default_rng(2)
    tests = [
        change_tests([*rng.normal(0, 1, 9), rng.normal(4.5, 1)], [1.0] * 10, STARTS[:10])[-1]
        for _ in range(300)
    ]
    assert 0.6 < np.mean([test is not None and test.changed for test in tests]) < 1


@pytest.fixture
def versions(edited_run: EditedRun) -> Versions:
    """Entries of successive versions: versions(estimates, comparable={2: {...}}, ...)."""
    base = read_entry(edited_run())

    def make(
        estimates: list[float], se: float = 0.02, changes: dict[int, dict[str, Any]] | None = None
    ) -> list[Entry]:
        entries = []
        for k, estimate in enumerate(estimates):
            fields = dict((changes or {}).get(k, {}))
            cell = replace(
                base.cells[0],
                model_revision=fields.pop("revision", f"v{k}"),
                model=fields.pop("model", "m"),
                sound=fields.pop("sound", True),
                comparable=base.cells[0].comparable | fields.pop("comparable", {}),
                indicators=(Indicator("cs", estimate, estimate - 1.96 * se, estimate + 1.96 * se),),
            )
            key = f"{k + 1:064x}"
            fields = {
                "answers_sha256": key,
                "started": f"2026-{k + 1:02d}-01T00:00:00+00:00",
            } | fields
            entries.append(replace(base, key=key, cells=(cell,), **fields))
        return entries

    return make


def registered(registry: Registry, entries: list[Entry]) -> list[Series]:
    """Every series of the contamination score over these entries."""
    for entry in entries:
        add(registry, entry, NOW)
    return series_of(cell_records(registry), ["cs"])


def test_a_worse_version_is_flagged(registry: Registry, versions: Versions) -> None:
    (series,) = registered(registry, versions([0.05, 0.06, 0.04, 0.25]))
    assert [p.revision for p in series.points] == ["v0", "v1", "v2", "v3"]
    assert [bool(p.look and p.look.changed) for p in series.points] == [False, False, False, True]
    assert series_of(cell_records(registry), ["excess"]) == []
    with pytest.raises(ConfigError, match="Unknown indicator: 'css'"):
        series_of(cell_records(registry), ["css"])


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"comparable": {"library": "other"}}, "the library of variants"),
        ({"comparable": {"prompts": "other"}}, "the prompts"),
        ({"suite_sha256": "9" * 64}, "the suite"),
    ],
)
def test_what_is_not_comparable_is_not_joined_and_not_tested(
    registry: Registry, versions: Versions, changed: dict, why: str
) -> None:
    (series,) = registered(
        registry, versions([0.05, 0.06, 0.5, 0.51], changes={2: changed, 3: changed})
    )
    assert [p.differs for p in series.points] == [(), (), (why,), ()]
    assert series.points[2].look is None
    assert (
        series.points[3].look is not None and series.points[3].look.look == 2
    )  # the looks are counted through


def test_a_repeated_run_replaces_no_figure_and_a_failed_check_is_not_tested(
    registry: Registry, versions: Versions
) -> None:
    changes = {1: {"revision": "v0"}, 3: {"sound": False}}
    (series,) = registered(registry, versions([0.3, 0.0, 0.31, 0.9], changes=changes))
    assert [(p.revision, p.estimate) for p in series.points] == [
        ("v0", 0.3),
        ("v2", 0.31),
        ("v3", 0.9),
    ]
    assert series.points[2].look is None


def test_of_two_judgements_of_the_same_answers_the_last_counts(
    registry: Registry, versions: Versions
) -> None:
    entries = versions(
        [0.3, 0.4],
        changes={0: {"answers_sha256": "a"}, 1: {"answers_sha256": "a", "revision": "v0"}},
    )
    (series,) = registered(registry, entries)
    assert [p.estimate for p in series.points] == [0.4]


def test_the_floor_is_of_the_current_version_of_every_model(
    registry: Registry, versions: Versions
) -> None:
    names = {
        0: {"model": "a"},
        1: {"model": "a"},
        2: {"model": "b"},
        3: {"model": "c"},
        4: {"model": "d", "comparable": {"library": "other"}},
        5: {"model": "e", "sound": False},
    }
    registered(registry, versions([0.5, 0.02, 0.06, 0.04, 0.9, 0.9], changes=names))
    first, other = floors_of(cell_records(registry), ["cs"])
    floor = max(first, other, key=lambda f: len(f.models))
    assert floor.median == 0.04 and [name for _, name in floor.models] == ["a", "c", "b"]


def test_a_score_is_printed_as_a_share(
    registry: Registry, versions: Versions, place: list[str], capsys: Capsys
) -> None:
    (base,) = versions([0.75])
    cell = replace(base.cells[0], indicators=(Indicator("score", 0.75, 0.7, 0.8),))
    registered(registry, [replace(base, cells=(cell,))])
    for words in ([], ["--floor"]):
        assert main(["trends", "--indicator", "score", *words, *place]) == 0
        output = capsys.readouterr().out
        assert "75 %" in output and "points" not in output


def test_the_command_prints_and_draws(
    registry: Registry,
    versions: Versions,
    place: list[str],
    tmp_path: Path,
    capsys: Capsys,
) -> None:
    registered(
        registry,
        versions(
            [0.05, 0.06, 0.3],
            changes={1: {"comparable": {"prompts": "p"}}, 2: {"comparable": {"prompts": "p"}}},
        ),
    )
    chart = tmp_path / "trends.svg"
    assert main(["trends", "--indicator", "cs", "--chart", str(chart), *place]) == 0
    output = capsys.readouterr().out
    assert "prompts" in output and "CHANGED" in output
    first = chart.read_bytes()
    assert first.startswith(b"<?xml") and first.count(b"#d55e00") >= 1
    assert (
        main(["trends", "--indicator", "cs", "--chart", str(chart), "--force", *place]) == 0
        and chart.read_bytes() == first
    )
    capsys.readouterr()
    assert main(["trends", "--floor", "--indicator", "cs", *place]) == 0
    assert "median +30.0 points of 1 models" in capsys.readouterr().out
    nowhere = tmp_path / "nowhere.db"
    for shows in ("list", "trends"):
        assert main([shows, "--registry", str(nowhere)]) == 1 and not nowhere.exists()
    for words in (["--model", "a"], ["--chart", "floor.svg"]):
        assert main(["trends", "--floor", *words, *place]) == 1
        assert "--chart" in capsys.readouterr().err
    for words in (["--indicator", "css"], ["--model", "none", "--chart", str(chart)]):
        assert main(["trends", *words, *place]) == 1
