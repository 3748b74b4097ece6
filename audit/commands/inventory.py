"""List the benchmarks that a model could have read, and the audit that tests each.

The dates come from the configurations: `date` of conf/benchmark and `released` of conf/model. The
results of a search in an index of training data are read from a file (--found)."""

import csv
import json
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from operator import attrgetter
from pathlib import Path

from audit.benchmarks.registry import format_of
from audit.config.base import known_models, load_group, load_model_config, options_of
from audit.core.errors import DataError, check_known
from audit.report.page import DASH


@dataclass(frozen=True)
class Exposure:
    """State whether one model could have read one benchmark.

    Attributes
    ----------
    benchmark : str
        The name of the benchmark.
    published : str
        The date of its publication, or "".
    where : str
        The place of its publication.
    found : str
        The training data in which an index search found the benchmark, or "".
    model : str
        The model, or "" if no model was named.
    months : int or None
        Months from the publication to the release of the model.
    says : str
        The conclusion, as a sentence.
    next : str
        The command that tests the model, or "".
    """

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
        """Return the three lines for the terminal."""
        model = f" and {self.model}" if self.model else ""
        search = f"; the search found it in {self.found}" if self.found else ""
        where = f"{self.published or DASH}; {self.where}{search}"
        command = f"next: {self.next}" if self.next else "nothing to run"
        return f"{self.benchmark}{model}: {self.says}\n  published {where}\n  {command}"


def months_between(published: str | None, released: str | None) -> int | None:
    """Return the number of calendar months from the first date to the second.

    Parameters
    ----------
    published : str or None
        Date of the benchmark, such as 2021-10. A year alone means its January.
    released : str or None
        Release date of the model.

    Returns
    -------
    int or None
        The months, negative if the benchmark is newer. None if a date is missing.

    Examples
    --------
    >>> months_between("2021-10", "2024-07")
    33
    """
    if not published or not released:
        return None
    return _month(released) - _month(published)


def _month(date: str) -> int:
    """Return the number of months from the start of the year 0 to a date."""
    year, month = map(int, f"{date}-01".split("-")[:2])
    return 12 * year + month


def exposure(
    name: str, about: Mapping[str, object], model: str, released: str | None, search_result: str
) -> Exposure:
    """Conclude from the dates whether a model could have read a benchmark.

    Parameters
    ----------
    name : str
        The name of the benchmark.
    about : Mapping
        The configuration of the benchmark.
    model : str
        The model, or "".
    released : str or None
        The release date of the model.
    search_result : str
        The result of an index search, or "".

    Returns
    -------
    Exposure
        The conclusion, and the command that tests it.
    """
    published = str(about.get("date") or "")
    months = months_between(published, released)
    if months is None:
        missing = (
            "publication date of the benchmark" if not published else "release date of the model"
        )
        says = f"unknown: the {missing} is missing"
    elif months >= 0:
        says = f"the model may have read the benchmark: public {months} months before the release"
    else:
        says = "the benchmark is newer than the model, if both dates are right"
    control = (
        "control_benchmark=auto" if about.get("twin") else "control_benchmark=YOUR_HELD_OUT_ITEMS"
    )
    words = f"audit memory model={model or 'NAME'} benchmark={name} {control}"
    # The questions of some formats cannot be asked. Only the validity audit reads these formats.
    if not format_of(str(about["format"])).answerable:
        words = f"audit validity model={model or 'NAME'} benchmark={name}"
    where = str(
        about.get("hub") or about.get("url") or about.get("path") or "ships with this program"
    )
    newer = months is not None and months < 0
    return Exposure(
        name, published, where, search_result, model, months, says, "" if newer else words
    )


def found_in(path: Path) -> dict[str, str]:
    """Read the results of an index search.

    Parameters
    ----------
    path : Path
        A csv file with the columns benchmark and found_in.

    Returns
    -------
    dict[str, str]
        Maps each benchmark to the training data that contain it.

    Raises
    ------
    DataError
        If a column is missing.
    """
    with path.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    if not rows or not {"benchmark", "found_in"} <= set(rows[0]):
        raise DataError(
            f"{path} lacks rows or a column. Expected the columns benchmark and found_in. "
            "Example: mmlu,C4 (2 % of the items)"
        )
    return {row["benchmark"]: row["found_in"] for row in rows if row["found_in"]}


def _pairs(suites: Sequence[str]) -> list[tuple[str, str]]:
    """Return (benchmark, model) for each suite; without suites, (benchmark, "") for every
    benchmark."""
    from audit.suite.commands import model_name
    from audit.suite.read import read_suite

    if not suites:
        return [(name, "") for name in options_of("benchmark") if name != "mcq_file"]
    read = [read_suite(name) for name in suites]
    return [(suite.dataset_config.benchmark_name, model_name(suite)) for suite in read]


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's arguments: suites, models, and the results of an index search."""
    add = parser.add_argument
    suites = "suites, whose benchmark and model are listed (default: every benchmark)"
    add("suites", nargs="*", help=suites)
    add("--model", action="append", default=[], help="a further model; may be repeated")
    search = "results of an index search, with the columns benchmark and found_in"
    add("--found", type=Path, metavar="CSV", help=search)
    add("--json", action="store_true", help="one JSON list")


def run(arguments: Namespace) -> int:
    """Print the exposure of each benchmark and model, benchmarks found in training data first.

    Returns
    -------
    int
        Exit code 0.
    """
    released = {name: load_model_config(name).released for name in known_models()}
    for model in arguments.model:
        check_known("model", model, released)
    pairs = dict[tuple[str, str], None]()
    for benchmark, suite_model in _pairs(arguments.suites):
        for model in list(filter(None, (suite_model, *arguments.model))) or [""]:
            pairs[benchmark, model] = None
    search_results = found_in(arguments.found) if arguments.found else {}
    rows = []
    for benchmark, model in pairs:
        about = load_group("benchmark", benchmark)
        date = released.get(model)
        rows.append(exposure(benchmark, about, model, date, search_results.get(benchmark, "")))
    rows.sort(key=lambda row: (not row.found, -(row.months or 0)))
    if arguments.json:
        print(json.dumps(list(map(asdict, rows)), indent=1))
    else:
        print(*map(attrgetter("text"), rows), sep="\n")
    return 0
