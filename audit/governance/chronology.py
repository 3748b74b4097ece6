"""Read and write CHRONOLOGY.jsonl, the record of the faults of a project or a run (li2026, Box 1).

Each entry describes one fault. It must state what a reader saw (field 4) and how much the results
changed (field 7). An entry without these fields cannot be audited, so it is refused. The file
chronology.schema.json defines all fields. This module checks what a schema cannot express:

- ids are unique;
- each affected cell has a delta (change);
- each fix has a test.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

from audit.core.errors import AuditError, DataError
from audit.core.guarded_files import read_text

NAME = "CHRONOLOGY.jsonl"
_ROOT = Path(__file__).resolve().parents[2]


class Provenance(StrEnum):
    INHERITED = "inherited"
    REPAIR = "introduced-in-repair"


class Residual(StrEnum):
    """Name the status of a fault: fixed, disclosed but not fixed, or out of scope."""

    FIXED = "FIXED"
    DISCLOSED = "DISCLOSED-UNFIXED"
    OUT_OF_SCOPE = "OUT-OF-SCOPE"


@dataclass(frozen=True, slots=True)
class Delta:
    """Hold how a fault changed the main statistic of one cell (model and benchmark; field 7).

    `before` and `after` are the values before and after the fix. A value is a number, or a text
    such as a verdict.
    """

    cell: str
    statistic: str
    before: float | str
    after: float | str


@dataclass(frozen=True, slots=True)
class ChronologyEntry:
    """Hold one fault. The fields have the same names as in the chronology file.

    `test` is `test_file.py::test_name`; it is "" if no test can detect the fault.
    """

    id: str
    failure_class: str
    found: str
    found_by: str
    affected: tuple[str, ...]
    symptom: str
    provenance: Provenance
    fix: str
    test: str
    deltas: tuple[Delta, ...]
    status: Residual
    reason: str


@dataclass(frozen=True)
class Chronology:
    """Hold the entries of a chronology, in the order of the file.

    The properties are the totals that Box 1 requires.
    """

    entries: tuple[ChronologyEntry, ...]

    @cached_property
    def repair_introduced(self) -> tuple[ChronologyEntry, ...]:
        return tuple(e for e in self.entries if e.provenance == Provenance.REPAIR)

    @cached_property
    def unfixed(self) -> tuple[ChronologyEntry, ...]:
        return tuple(e for e in self.entries if e.status != Residual.FIXED)

    @property
    def tests(self) -> tuple[str, ...]:
        """Return the names of the regression tests of all fixes, without duplicates."""
        return tuple(dict.fromkeys(e.test for e in self.entries if e.test))

    @property
    def sentence(self) -> str:
        """Return a sentence with the totals that Box 1 requires."""
        n, repair = len(self.entries), len(self.repair_introduced)
        entries = "1 entry" if n == 1 else f"{n} entries"
        return f"{entries}: {repair} introduced during repair, {len(self.unfixed)} not fixed."


_BOX = ((4, "symptom", "what a reader saw and believed"), (7, "deltas", "how much it moved"))


@cache
def _schema() -> Any:
    # jsonschema is imported here, because most commands read no chronology and do not need it.
    from jsonschema import Draft202012Validator

    schema = json.loads((files("audit") / "chronology.schema.json").read_text(encoding="utf-8"))
    return Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)


def parse_entry(raw: Any) -> ChronologyEntry:
    """Parse one JSON object.

    Returns
    -------
    ChronologyEntry
        The parsed and checked entry.

    Raises
    ------
    DataError
        If a field is missing or not auditable. The message names the field. Fields 4 and 7 are
        named by their number in Box 1.
    """
    _check(raw)
    deltas = tuple(Delta(**delta) for delta in raw["deltas"])
    kinds = {"provenance": Provenance(raw["provenance"]), "status": Residual(raw["status"])}
    entry = ChronologyEntry(**raw | kinds | {"affected": tuple(raw["affected"]), "deltas": deltas})
    for delta in entry.deltas:
        if delta.before != delta.before or delta.after != delta.after:
            raise DataError("not auditable: a delta is NaN.")
    if odd := sorted({delta.cell for delta in entry.deltas} ^ set(entry.affected)):
        raise DataError(
            f"not auditable: affected and deltas do not agree on {', '.join(odd)}. Expected "
            "exactly one delta for each affected cell."
        )
    if entry.status == Residual.FIXED and not (entry.fix.strip() and entry.test):
        raise DataError(
            "the status is FIXED, but a fix or a test that fails on the fault is missing (field 6)."
        )
    return entry


def _check(raw: Any) -> None:
    from jsonschema.exceptions import best_match

    for number, name, meaning in _BOX:
        if isinstance(raw, Mapping) and not str(raw.get(name) or "").strip():
            raise DataError(f"not auditable: field {number} ({name}, {meaning}) is missing.")
    error = best_match(_schema().iter_errors(raw))
    if error is not None:
        path = [*map(str, error.absolute_path)]
        about = (
            _schema().schema["properties"].get(path[0], {}).get("description", "") if path else ""
        )
        raise DataError(f"{'.'.join(path) or 'an entry'}: {error.message}. {about}".rstrip())


def parse_chronology(text: str, source: str = NAME) -> Chronology:
    """Parse the lines of a chronology file.

    Raises DataError if a line is invalid or an id occurs twice. The message names the file and the
    line.
    """
    places: dict[str, int] = {}
    entries = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            entry = parse_entry(json.loads(line))
        except (AuditError, ValueError) as error:
            raise DataError(f"{source}, line {number}: {error}") from error
        if entry.id in places:
            raise DataError(
                f"{source}, line {number}: id {entry.id} was already used in line {places[entry.id]}."
            )
        places[entry.id] = number
        entries.append(entry)
    return Chronology(tuple(entries))


def chronology_file(path: Path) -> Path:
    """Return the path of a chronology's file.

    If `path` is a folder, the file is CHRONOLOGY.jsonl in this folder or in its subfolder docs.
    """
    if not path.is_dir():
        return path
    in_docs = path / "docs" / NAME
    return in_docs if in_docs.is_file() and not (path / NAME).is_file() else path / NAME


def read_chronology(path: Path) -> Chronology:
    """Return the chronology in a file or folder. Raises DataError if the file cannot be read."""
    file = chronology_file(path)
    try:
        return parse_chronology(read_text(file, follow=True), file.name)
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"Cannot read {file}: {error}. Expected {NAME}, with one JSON object per line."
        ) from error


def chronology_of(folder: Path) -> Chronology | None:
    """Return the chronology in a run's directory; None if the directory has no chronology."""
    return read_chronology(folder) if (folder / NAME).is_file() else None


def project_file() -> Path:
    """Return the path of this program's own chronology.

    This is the file in the source checkout, or else the copy in the installed package.
    """
    here = chronology_file(_ROOT)
    return here if here.is_file() else Path(__file__).parents[1] / "_chronology.jsonl"


def append(path: Path, raw: Any) -> ChronologyEntry:
    """Append one entry to a chronology, and create the file if needed.

    Parameters
    ----------
    path : Path
        The chronology's file, or the folder that holds it.
    raw : Any
        The entry as a JSON object.

    Returns
    -------
    ChronologyEntry
        The parsed and checked entry.

    Raises
    ------
    DataError
        If the entry is invalid, or its id exists already. In both cases nothing is written.
    """
    file = chronology_file(path)
    entry = parse_entry(raw)
    if file.is_file() and entry.id in {e.id for e in read_chronology(file).entries}:
        raise DataError(
            f"id {entry.id} is already in {file.name}; an entry is never replaced. Take another id."
        )
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(asdict(entry), ensure_ascii=False) + "\n")
    return entry


def missing_tests(chronology: Chronology, tests: Path) -> list[str]:
    """Return the tests that a chronology names but that do not exist.

    Parameters
    ----------
    chronology : Chronology
        The chronology whose entries name tests.
    tests : Path
        The folder of the tests. A file is identified by its name, which is unique.

    Returns
    -------
    list of str
        Names of the missing tests, as `test_file.py::test_name`.
    """
    missing = []
    for name in chronology.tests:
        file, _, test = name.partition("::")
        definition = re.compile(rf"^\s*(?:async )?def {test}\(", re.MULTILINE)
        texts = [path.read_text(encoding="utf-8") for path in sorted(tests.rglob(file))]
        if not any(map(definition.search, texts)):
            missing.append(name)
    return missing


def render(chronology: Chronology) -> str:
    """Render a chronology.

    Returns
    -------
    str
        Markdown with the totals, the entries whose fault is not fixed, and then every entry with
        its numbers.
    """
    counts = Counter(e.failure_class for e in chronology.entries)
    classes = ", ".join(f"{name} {n}" for name, n in sorted(counts.items()))
    out = ["# Chronology", "", chronology.sentence + (f" By class: {classes}." if classes else "")]
    parts = {
        "Introduced during repair": chronology.repair_introduced,
        "Not fixed": chronology.unfixed,
    }
    for title, entries in parts.items():
        if entries:
            out += ["", f"{title}: " + "; ".join(f"{e.id} ({e.reason})" for e in entries)]
    for e in chronology.entries:
        out += ["", f"## {e.id} · {e.failure_class} · {e.status}", ""]
        out += [
            f"- Found {e.found}: {e.found_by}",
            f"- A reader saw: {e.symptom}",
            f"- Provenance: {e.provenance}",
        ]
        out += [f"- Fix: {e.fix or 'none'}", f"- Test: {f'`{e.test}`' if e.test else 'none'}"]
        out += [
            f"- Why {e.status}: {e.reason}",
            "",
            "| cell | statistic | before | after |",
            "|---|---|---|---|",
        ]
        for d in e.deltas:
            out.append(f"| {' | '.join(map(_cell, (d.cell, d.statistic, d.before, d.after)))} |")
    return "\n".join(out) + "\n"


def _cell(value: float | str) -> str:
    return (
        (f"{value:g}" if isinstance(value, float | int) else value)
        .replace("|", "\\|")
        .replace("\n", " ")
    )
