"""Compute how indicators change over the versions of a model, and compare all current models."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from audit.core.errors import unknown_name
from audit.registry.entry import NAMES, digest
from audit.registry.store import CellRecord
from audit.statistics.versions import Look, change_tests, standard_error

FOLLOWED = ("cs", "excess", "fresh_gap", "selectivity", "drop", "score")


@dataclass(frozen=True)
class Point:
    """Hold an indicator's value for one version of a model.

    Attributes
    ----------
    revision, started : str
        The revision of the model, and the start time of its first run.
    estimate, low, high : float or None
        The estimate and its 95 % interval.
    sound : bool
        Whether the measurement passed its checks. If not, the point is shown but not tested.
    differs : tuple of str
        The differences between the measurements of this point and the previous point. If this tuple
        is not empty, the two points are not compared.
    look : Look or None
        The test of change since the previous point; None without a test.
    alike : str
        Hash of the settings of the measurement. Points are compared only if their hashes are equal.
    """

    revision: str
    started: str
    estimate: float
    low: float | None
    high: float | None
    sound: bool
    differs: tuple[str, ...]
    look: Look | None
    alike: str


@dataclass(frozen=True)
class Series:
    """Hold the values of an indicator for all versions of one model on one benchmark.

    The versions are in the order of their first runs.

    Attributes
    ----------
    audit, model, benchmark, context, indicator : str
        The names that identify the series.
    points : tuple of Point
        The points, one for each version.
    """

    audit: str
    model: str
    benchmark: str
    context: str
    indicator: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Floor:
    """Hold the values of an indicator on a benchmark for the current versions of all models.

    The values are called a level, since a model with a higher value stands out.

    Attributes
    ----------
    benchmark, context, indicator : str
        The names that identify the level.
    models : tuple of (float, str)
        A tuple (estimate, name of the model) for each model, the lowest estimate first.
    alike : str
        Hash of the settings of the measurement, as in `Point`.
    """

    benchmark: str
    context: str
    indicator: str
    models: tuple[tuple[float, str], ...]
    alike: str

    @property
    def median(self) -> float:
        """Return the median of the models' estimates."""
        return median(estimate for estimate, _ in self.models)


def series_of(
    records: Sequence[CellRecord], indicators: Sequence[str] = (), *, together: bool = False
) -> list[Series]:
    """Return every series with at least one estimate, sorted by the names that identify the series.

    Parameters
    ----------
    records : sequence of CellRecord
        Cells in the order in which their runs started.
    indicators : sequence of str
        The names of the indicators; if empty, all of FOLLOWED.
    together : bool
        Whether models with different names count as versions of one model.

    Returns
    -------
    list of Series
        One series for each indicator, model and benchmark.

    Raises
    ------
    ConfigError
        If an indicator is unknown.

    Notes
    -----
    Each version has one point, which comes from its first run. Later runs of the same weights are
    not used. If the same answers were judged several times, the last verdict is used.
    """
    names = _checked(indicators)
    grouped: dict[tuple[str, str, str, str, str], list[CellRecord]] = {}
    for record in latest_judgements(records):
        cell = record.cell
        model = "" if together else cell["model"]
        for name in names:
            if record.indicators.get(name, (None,))[0] is not None:
                key = (record.run["audit"], model, cell["benchmark"], cell["context"], name)
                grouped.setdefault(key, []).append(record)
    series = []
    for (audit, model, benchmark, context, name), cells in sorted(grouped.items()):
        named = model or " + ".join(dict.fromkeys(record.cell["model"] for record in cells))
        series.append(Series(audit, named, benchmark, context, name, _points(cells, name)))
    return series


def floors_of(records: Sequence[CellRecord], indicators: Sequence[str] = ()) -> list[Floor]:
    """Return the values of all current models on each benchmark, from the latest run of each model.

    Parameters
    ----------
    records : sequence of CellRecord
        Cells in the order in which their runs started.
    indicators : sequence of str
        The names of the indicators; if empty, all of FOLLOWED.

    Returns
    -------
    list of Floor
        The levels. Only models that were measured in the same way share a level, and only
        measurements that passed their checks count.

    Raises
    ------
    ConfigError
        If an indicator is unknown.
    """
    names = _checked(indicators)
    current: dict[tuple[str, ...], CellRecord] = {}
    for record in latest_judgements(records):
        current[
            record.run["audit"],
            record.cell["benchmark"],
            record.cell["context"],
            record.cell["model"],
        ] = record
    grouped: dict[tuple[str, ...], list[tuple[float, str]]] = {}
    for (audit, benchmark, context, model), record in current.items():
        for name in names:
            estimate = record.indicators.get(name, (None,))[0]
            if estimate is not None and record.cell["sound"]:
                key = (audit, benchmark, context, name, _alike(record))
                grouped.setdefault(key, []).append((estimate, model))
    floors = []
    for (_, benchmark, context, name, alike), models in sorted(grouped.items()):
        floors.append(Floor(benchmark, context, name, tuple(sorted(models)), alike))
    return floors


def latest_judgements(records: Sequence[CellRecord]) -> list[CellRecord]:
    """Return the given cells without outdated verdicts.

    If the same answers were judged several times, only the cells of the last registered verdict are
    returned.
    """
    last: dict[str, tuple[str, str]] = {}
    for record in records:
        answers = record.run["answers_sha256"]
        when = (record.run["registered"], record.run["key"])
        last[answers] = max(last.get(answers, ("", "")), when)
    latest = []
    for record in records:
        if last[record.run["answers_sha256"]] == (record.run["registered"], record.run["key"]):
            latest.append(record)
    return latest


def _points(cells: Sequence[CellRecord], name: str) -> tuple[Point, ...]:
    first: dict[tuple[str, ...], CellRecord] = {}
    for record in cells:
        first.setdefault(
            (record.cell["model"], record.cell["model_revision"], _alike(record)), record
        )
    chosen = list(first.values())
    differs = [(), *(_differs(a, b) for a, b in pairwise(chosen))]
    figures = [record.indicators[name] for record in chosen]
    errors = []
    for record, (_, low, high) in zip(chosen, figures, strict=True):
        tested = record.cell["sound"] and low is not None
        errors.append(standard_error(low, high) if tested else float("nan"))
    estimates = [estimate for estimate, _, _ in figures]
    looks = change_tests(estimates, errors, [True, *map(bool, differs[1:])])
    points = []
    for record, figure, why, look in zip(chosen, figures, differs, looks, strict=True):
        cell = record.cell
        sound = bool(cell["sound"])
        points.append(
            Point(
                cell["model_revision"],
                record.run["started"],
                *figure,
                sound,
                why,
                look,
                _alike(record),
            )
        )
    return tuple(points)


def _differs(before: CellRecord, after: CellRecord) -> tuple[str, ...]:
    a, b = before.cell["comparable"], after.cell["comparable"]
    differences = []
    for name, text in NAMES.items():
        if a.get(name) != b.get(name):
            differences.append(text)
    if before.run["suite_sha256"] != after.run["suite_sha256"]:
        differences.insert(0, "the suite")
    return tuple(differences)


def _alike(record: CellRecord) -> str:
    cell = record.cell
    return digest(
        [cell["comparable"], record.run["suite_sha256"], cell["benchmark"], cell["context"]]
    )


def _checked(indicators: Sequence[str]) -> Sequence[str]:
    for name in indicators:
        if name not in FOLLOWED:
            raise unknown_name("indicator", name, FOLLOWED)
    return list(indicators) or FOLLOWED
