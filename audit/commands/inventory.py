"""`audit inventory [SUITE ...]`: which benchmarks could a model have read, and what would show it?

The dates are those of the configurations (`date` of conf/benchmark, `released` of conf/model); what
an index search found is read from a file."""

import csv
import json
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from audit.benchmarks.registry import format_of
from audit.config.base import known_models, load_group, load_model_config, options_of
from audit.core.errors import DataError, check_known
from audit.report.page import DASH


@dataclass(frozen=True)
class Exposure:
    """One benchmark and one model ("" where none was named). months: from publication to the
    model's release."""

    benchmark: str
    published: str
    where: str
    found: str
    model: str
    months: int | None
    says: str
    next: str

    @property
    def text(self) -> str:
        model = f" and {self.model}" if self.model else ""
        found = f"; the search found it in {self.found}" if self.found else ""
        where = f"{self.published or DASH}; {self.where}{found}"
        then = f"next: {self.next}" if self.next else "nothing to run"
        return f"{self.benchmark}{model}: {self.says}\n  published {where}\n  {then}"


def months_between(published: str | None, released: str | None) -> int | None:
    """Whole months by the calendar, negative where the benchmark is newer; None without both. A
    year is its January.

    >>> months_between("2021-10", "2024-07")
    33
    """
    if not published or not released:
        return None
    first, last = (
        [int(part) for part in f"{date}-01".split("-")[:2]]
        for date in (str(published), str(released))
    )
    return 12 * (last[0] - first[0]) + last[1] - first[1]


def exposure(
    name: str, about: Mapping[str, object], model: str, released: str | None, found: str
) -> Exposure:
    """about: the benchmark's configuration. released: of the model. found: what an index search
    says."""
    published = str(about.get("date") or "")
    months = months_between(published, released)
    if months is None:
        says = "unknown: " + ("its date of publication" if not published else "the model's release")
    elif months >= 0:
        says = f"may have been read: public {months} months before the model"
    else:
        says = "not read before the model's release, if both dates are right"
    control = (
        "control_benchmark=auto" if about.get("twin") else "control_benchmark=YOUR_HELD_OUT_ITEMS"
    )
    words = f"audit memory model={model or 'NAME'} benchmark={name} {control}"
    # A reference scorer reads benchmarks of this format.
    if not format_of(str(about["format"])).answerable:
        words = f"audit validity model={model or 'NAME'} benchmark={name}"
    where = str(
        about.get("hub") or about.get("url") or about.get("path") or "ships with this program"
    )
    newer = months is not None and months < 0
    return Exposure(name, published, where, found, model, months, says, "" if newer else words)


def found_in(path: Path) -> dict[str, str]:
    """What an index search found, from a csv with the columns benchmark and found_in."""
    with path.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    if not rows or not {"benchmark", "found_in"} <= set(rows[0]):
        raise DataError(
            f"{path} has no columns benchmark and found_in. Expected such as: mmlu,C4 (2 % of the items)."
        )
    return {row["benchmark"]: row["found_in"] for row in rows if row["found_in"]}


def _pairs(suites: Sequence[str]) -> list[tuple[str, str]]:
    """(benchmark, model) of each suite; without suites, every benchmark and no model."""
    from audit.suite.commands import model_name
    from audit.suite.read import read_suite

    if not suites:
        return [(name, "") for name in options_of("benchmark") if name != "mcq_file"]
    read = [read_suite(one) for one in suites]
    return [(suite.dataset_config.benchmark_name, model_name(suite)) for suite in read]


def add_words(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("suites", nargs="*", help="suites: their benchmark and model; none: every benchmark")
    add("--model", action="append", default=[], help="a model, beside those of the suites")
    add("--found", type=Path, metavar="CSV", help="columns benchmark, found_in: of an index search")
    add("--json", action="store_true", help="one JSON list")


def run(asked: Namespace) -> int:
    """Print a line for each benchmark and model, those that may have been read first."""
    released = {name: load_model_config(name).released for name in known_models()}
    for model in asked.model:
        check_known("model", model, released)
    suites = _pairs(asked.suites)
    pairs = dict.fromkeys(
        (name, one) for name, own in suites for one in [*filter(None, [own]), *asked.model] or [""]
    )
    found = found_in(asked.found) if asked.found else {}
    rows = [
        exposure(
            name, load_group("benchmark", name), model, released.get(model), found.get(name, "")
        )
        for name, model in pairs
    ]
    rows.sort(key=lambda one: (not one.found, -(one.months or 0)))
    if asked.json:
        print(json.dumps([asdict(one) for one in rows], indent=1))
    else:
        print("\n".join(one.text for one in rows))
    return 0
