"""Are items held out? Not those that a benchmark holds already, nor those that suit one model alone. Pure."""

import datetime as dt
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from audit.benchmarks.rows import words_alone
from audit.errors import ConfigError
from audit.records import Item

_DATE = re.compile(r"(\d{4})(?:-(0[1-9]|1[0-2])(?:-(0[1-9]|[12]\d|3[01]))?)?")


@dataclass(frozen=True)
class Origin:
    """What is known of a model; None where nothing is said."""

    released: str | None = None
    family: str | None = None


def check_origin(
    items: str, date: str | None, written_by: str | None, tested: Mapping[str, Origin], references: Mapping[str, Origin]
) -> dict[str, list[str]]:
    """What a manifest keeps: held_out, what cannot be excluded for want of knowing, a sentence each; undated, the
    tested models of which it is not known that the items are no newer for them alone. items: name of the held-out set.

    ConfigError where a tested model's family wrote them (they suit it, which hides a gap), where they are newer than a
    tested model and not than a reference (they are harder for the tested model alone, which makes a gap), and for what
    is no date.
    """
    for told in (date, *(model.released for model in (*tested.values(), *references.values()))):
        check_date(told)
    notes = []
    if date is None:
        open_ = f"It is not known when {items} was written (control_benchmark.date)"
        notes.append(f"{open_}: items that are newer than a tested model alone make a gap without memory.")
    if written_by is None:
        open_ = f"It is not known who wrote {items} (control_benchmark.written_by)"
        notes.append(f"{open_}: items that the tested model's own family wrote suit it, and hide a gap.")
    for name, model in tested.items():
        if _wrote(written_by, name, model):
            found = f"{items} was written by {written_by}, the family of the tested model {name}, which hides a gap"
            raise ConfigError(f"{found}. Expected another family, or control_benchmark.written_by=people.")
        notes += _ages(items, date, name, model, references)
    for name, model in references.items():
        if _wrote(written_by, name, model):
            notes.append(f"{items} was written by {written_by}, the family of reference {name}: it may suit that one.")
    unknown = [name for name, model in {**tested, **references}.items() if date is not None and not model.released]
    if unknown:
        notes.append(
            f"It is not known when {', '.join(unknown)} was released (model.{unknown[0]}.released), so not whether "
            f"{items} is as new to all models."
        )
    nameless = [name for name, model in tested.items() if written_by not in (None, "people") and not model.family]
    if nameless:
        notes.append(f"It is not known of which family {', '.join(nameless)} is (model.{nameless[0]}.family).")
    return {"held_out": notes, "undated": _undated(date, tested, references)}


def _ages(items: str, date: str | None, name: str, model: Origin, references: Mapping[str, Origin]) -> list[str]:
    if date is None or model.released is None:
        return []
    newer = is_newer(date, model.released)
    others = {other: o.released for other, o in references.items() if o.released is not None}
    older = [other for other, released in others.items() if not is_newer(date, released)]
    if newer and older:
        found = f"{items} ({date}) is newer than the tested model {name} ({model.released}) and not than reference"
        raise ConfigError(
            f"{found} {older[0]} ({others[older[0]]}): items that are harder for {name} alone make a gap without "
            f"memory. Expected references released before {date}, or older items."
        )
    old = (
        f"{items} ({date}) is not newer than {name} ({model.released}): its items may have been in the training, which "
        "hides a gap."
    )
    return [] if newer else [old]


def _undated(date: str | None, tested: Mapping[str, Origin], references: Mapping[str, Origin]) -> list[str]:
    """Where the items are newer than the model, or nobody says, they must be known to be newer than every reference."""
    released = [one.released for one in references.values()]
    new_to_all = date is not None and all(one is not None and is_newer(date, one) for one in released)
    return [
        name
        for name, model in tested.items()
        if date is None or model.released is None or (is_newer(date, model.released) and not new_to_all)
    ]


def last_date(date: str | None, tested: Iterable[Origin]) -> str | None:
    """Items of `date` that are newer than a tested model need references released before it: the date, else None."""
    released = [one.released for one in tested if one.released is not None]
    return date if date is not None and any(is_newer(date, one) for one in released) else None


def told_families(origins: Mapping[str, Mapping[str, str | None]]) -> dict[str, str]:
    """{model: family} of a manifest's origins."""
    return {name: family for name, one in origins.items() if (family := one.get("family"))}


def is_newer(date: str, other: str) -> bool:
    """Whether all of a year, month or day is after another. ConfigError for what is no date.

    >>> is_newer("2024-08", "2024-07-23"), is_newer("2024-07-23", "2024-07"), is_newer("2025", "2024-12")
    (True, False, True)
    """
    return _span(date)[0] > _span(other)[1]


def following(date: str) -> str:
    """The year, month or day after another. ConfigError for what is no date.

    >>> following("2024"), following("2024-12"), following("2024-02-29")
    ('2025', '2025-01', '2024-03-01')
    """
    first, _ = _span(date)
    year, month, day = map(int, first.split("-"))
    if len(date) == len("2024"):
        return str(year + 1)
    if len(date) == len("2024-01"):
        return f"{year + month // 12}-{month % 12 + 1:02}"
    return (dt.date(year, month, day) + dt.timedelta(days=1)).isoformat()


def check_date(date: str | None) -> None:
    """ConfigError for what is no date. None: nothing is said."""
    if date is not None:
        _span(date)


def _span(date: str) -> tuple[str, str]:
    """The first and the last day, as text that sorts."""
    found = _DATE.fullmatch(date)
    if found is None:
        raise ConfigError(f"{date!r} is no date. Expected a year, month or day, such as 2026, 2026-05 or 2026-05-31.")
    year, month, day = found.groups()
    return f"{year}-{month or '01'}-{day or '01'}", f"{year}-{month or '12'}-{day or '31'}"


def _wrote(writer: str | None, name: str, model: Origin) -> bool:
    return writer is not None and writer.casefold() in {name.casefold(), (model.family or name).casefold()}


def check_fresh(benchmark: Iterable[Item], fresh: Iterable[Item], names: tuple[str, str]) -> None:
    """ConfigError where a held-out set shares an item with the benchmark. names: of the two, in this order.

    Give the whole benchmark, not a sample: what a model may have seen is all of it.
    """
    if shared := shared_items(benchmark, fresh):
        ours, theirs = shared[0]
        found = f"{len(shared)} items of {names[1]} have the same text as one of {names[0]}"
        raise ConfigError(f"{found}, such as {theirs} and {ours}. Take them out of control_benchmark.")


def shared_items(benchmark: Iterable[Item], fresh: Iterable[Item]) -> list[tuple[str, str]]:
    """(id of the benchmark, id of the held-out set) of items with one text, whatever their case, marks and blanks.

    The question decides; where the benchmark asks one question of several lists of options (passages apart), these too.
    """
    known: dict[str, list[Item]] = {}
    for question in benchmark:
        known.setdefault(words_alone(question.text), []).append(question)
    found = []
    for question in fresh:
        same = known.get(words_alone(question.text), [])
        if len(same) > 1:
            options = set(map(words_alone, question.options))
            same = [one for one in same if set(map(words_alone, one.options)) == options]
        if same:
            found.append((same[0].id, question.id))
    return found
