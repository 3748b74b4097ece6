"""Check that held-out items are not in the benchmark and favour no model.

Items may be unfair if they are newer than only some models, or if a model's family wrote them. The
module does no I/O.
"""

import datetime as dt
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from audit.benchmarks.rows import words_alone
from audit.core.errors import ConfigError
from audit.core.records import Item

_TO, _NO_END = "..", "9999-12-31"  # A span is FIRST..LAST, or FIRST.. without an end.
_DATE = re.compile(r"(\d{4})(?:-(0[1-9]|1[0-2])(?:-(0[1-9]|[12]\d|3[01]))?)?")


@dataclass(frozen=True)
class Origin:
    """Hold the release date and the family of a model; an unknown value is None."""

    released: str | None = None
    family: str | None = None


def check_origin(
    items: str,
    date: str | None,
    written_by: str | None,
    tested: Mapping[str, Origin],
    references: Mapping[str, Origin],
) -> dict[str, list[str]]:
    """Check that neither the date nor the author of held-out items favours a model.

    Parameters
    ----------
    items : str
        Name of the held-out set.
    date : str or None
        When the items were written: one date for all items, or FIRST..LAST. If the newest item is
        newer than a tested model, each reference must be older than the oldest item.
    written_by : str or None
        "people", or the family of the model that wrote the items.
    tested, references : mapping
        Origin of each model, by its name.

    Returns
    -------
    dict
        Entries for the manifest:

        - held_out: a sentence for each problem that cannot be excluded;
        - undated: the tested models to which the items may be new, although they may not be new to
          all references;
        - dates_missing: the models whose missing dates are needed to decide this. The first name is
          "" if the date of the items is missing too.

    Raises
    ------
    ConfigError
        If a date is invalid, or in one of two cases:

        - A model of a tested model's family wrote the items. Such items suit the tested model,
          which hides a gap.
        - Some items are newer than a tested model, but not all are newer than a reference. Such
          items are harder for the tested model alone, which creates a gap.
    """
    models = {**tested, **references}
    check_date(date)
    for model in models.values():
        check_date(model.released)
    notes = _unknown(items, date, written_by)
    for name, model in tested.items():
        if _wrote(written_by, name, model):
            raise ConfigError(
                f"{items} was written by {written_by}, the family of the tested model {name}. This "
                "hides a gap. Expected another family, or control_benchmark.written_by=people."
            )
        notes += _ages(items, date, name, model, references)
    for name, model in references.items():
        if _wrote(written_by, name, model):
            notes.append(
                f"{items} was written by {written_by}, the family of reference {name}, and may "
                "suit this reference."
            )
    unreleased = [name for name, model in models.items() if not model.released]
    if unreleased and date is not None:
        notes.append(
            f"The release date of {', '.join(unreleased)} is unknown (model.{unreleased[0]}.released), "
            f"so {items} may not be equally new to all models."
        )
    nameless = [name for name, model in tested.items() if not model.family]
    if nameless and written_by not in (None, "people"):
        notes.append(
            f"The family of {', '.join(nameless)} is unknown (model.{nameless[0]}.family)."
        )
    undated = _undated(date, tested, references)
    missing = _missing(date, undated, tested, references)
    return {"held_out": notes, "undated": undated, "dates_missing": missing}


def _unknown(items: str, date: str | None, written_by: str | None) -> list[str]:
    """Return a sentence for each missing fact about held-out items, such as their date."""
    notes = []
    if date is None:
        notes.append(
            f"The date of the items of {items} is unknown (control_benchmark.date). Items that are "
            "newer than a tested model, but not than its references, make a gap without memory."
        )
    if written_by is None:
        notes.append(
            f"The writer of {items} is unknown (control_benchmark.written_by). Items that the "
            "tested model's family wrote suit this model, and hide a gap."
        )
    return notes


def _missing(
    date: str | None,
    undated: Sequence[str],
    tested: Mapping[str, Origin],
    references: Mapping[str, Origin],
) -> list[str]:
    """Return the names of models whose release dates are needed, but missing.

    The first name is "" if the date of the items is missing too.
    """
    if not undated:
        return []
    missing = [""] if date is None else []
    for name, model in {**tested, **references}.items():
        if model.released is None and (name in undated or name in references):
            missing.append(name)
    return missing


def _ages(
    items: str, date: str | None, name: str, model: Origin, references: Mapping[str, Origin]
) -> list[str]:
    if date is None or model.released is None:
        return []
    newer = has_newer(date, model.released)
    others = {}
    for other, o in references.items():
        if o.released is not None:
            others[other] = o.released
    older = []
    for other, released in others.items():
        if not is_newer(date, released):
            older.append(other)
    if newer and older:
        raise ConfigError(
            f"{items} ({date}) has items newer than the tested model {name} ({model.released}), "
            f"but not all are newer than reference {older[0]} ({others[older[0]]}). Items that are "
            f"harder for {name} alone make a gap without memory. Expected references released "
            f"before {_first(date)}, or older items."
        )
    if newer:
        return []
    return [
        f"{items} ({date}) has no item newer than {name} ({model.released}). The items may have "
        "been in its training data, which hides a gap."
    ]


def _undated(
    date: str | None, tested: Mapping[str, Origin], references: Mapping[str, Origin]
) -> list[str]:
    """Return the tested models to which the items may be new, unless they are new to all
    references.
    """
    if date is None:
        return list(tested)
    releases = [reference.released for reference in references.values()]
    new_to_all = all(released is not None and is_newer(date, released) for released in releases)
    undated = []
    for name, model in tested.items():
        if model.released is None or (has_newer(date, model.released) and not new_to_all):
            undated.append(name)
    return undated


def last_date(date: str | None, tested: Iterable[Origin]) -> str | None:
    """Return the date before which references must have been released.

    Parameters
    ----------
    date : str or None
        When the items were written: one date, or FIRST..LAST.
    tested : iterable of Origin
        Release date and family of each tested model.

    Returns
    -------
    str or None
        Date of the oldest item if some items are newer than a tested model; None if there is no
        restriction on references.
    """
    if date is None:
        return None
    releases = [model.released for model in tested if model.released is not None]
    newer = any(has_newer(date, released) for released in releases)
    return _first(date) if newer else None


def families_of(origins: Mapping[str, Mapping[str, str | None]]) -> dict[str, str]:
    """Map the name of each model in a manifest to its family. Models of unknown family are left
    out."""
    families = {name: origin.get("family") for name, origin in origins.items()}
    return {name: family for name, family in families.items() if family}


def is_newer(date: str, other: str) -> bool:
    """Return whether a date, or every day of a span, is later than another date.

    A date is a year, month or day; a span is FIRST..LAST. Raises ConfigError for other texts.

    >>> is_newer("2024-08", "2024-07-23"), is_newer("2024-07-23", "2024-07")
    (True, False)
    >>> is_newer("2025", "2024-12")
    True
    """
    return _span(date)[0] > _span(other)[1]


def has_newer(dates: str, other: str) -> bool:
    """Return whether some items of one date, or of a span FIRST..LAST, may be after another date.

    >>> has_newer("2023-09..2024-03", "2023-11"), has_newer("2023-09", "2023-11")
    (True, False)
    """
    return _span(dates)[1] > _span(other)[1]


def _first(dates: str) -> str:
    """Return the date of the oldest item: the date itself, or FIRST of a span FIRST..LAST."""
    return dates.partition(_TO)[0]


def following(date: str) -> str:
    """Return the year, month or day that follows another; raise ConfigError for other texts.

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
    """Raise ConfigError if a text is not a date; None (unknown) is accepted."""
    if date is not None:
        _span(date)


def is_span(dates: str | None) -> bool:
    """Return whether a text is a span (FIRST..LAST or FIRST..) and not a single date."""
    return _TO in (dates or "")


def within(date: str, dates: str) -> bool:
    """Return whether every day of a year, month or day lies in FIRST..LAST, ends included.

    >>> within("2023-11-30", "2023-09..2023-11"), within("2023", "2023-09..2023-11")
    (True, False)
    """
    start, end = _span(date)
    first, last = _span(dates)
    return first <= start and end <= last


def is_from(date: str, first: str) -> bool:
    """Return whether no day of a year, month or day is before a date. Raises ConfigError if only
    some of the days are before it.

    >>> is_from("2023-09-01", "2023-09"), is_from("2023-08-31", "2023-09")
    (True, False)
    """
    begin, end = _span(date)
    cut, _ = _span(first)
    if begin < cut <= end:
        raise ConfigError(
            f"The date is {date!r}, which begins before {first} and ends later. Expected a day."
        )
    return begin >= cut


def day_of(text: str) -> str:
    """Return the day of a date with a time. Other texts are returned without outer whitespace.

    A time with a zone counts in UTC, so that items of several zones are in one order.

    >>> day_of("2023-08-31T20:00:00-08:00"), day_of(" 2023-09 "), day_of("2023-08-15 or later")
    ('2023-09-01', '2023-09', '2023-08-15 or later')
    """
    text = text.strip()
    day = len("2023-09-01")
    if text[day : day + 1] not in ("T", " "):
        return text
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        return text
    if moment.tzinfo is not None:
        moment = moment.astimezone(dt.UTC)
    return moment.date().isoformat()


def span_of(dates: Iterable[str]) -> str:
    """Return the span FIRST..LAST from the earliest to the latest of some dates.

    >>> span_of(["2024-02-10", "2023-09", "2023-11-30"])
    '2023-09..2024-02-10'
    """
    known = set(dates)
    first = min(known, key=lambda date: _span(date)[0])
    last = max(known, key=lambda date: _span(date)[1])
    return f"{first}{_TO}{last}"


def _span(dates: str) -> tuple[str, str]:
    """Return the first and the last day of one date, FIRST..LAST or FIRST...

    The days are texts that sort by time.
    """
    first, to, last = dates.partition(_TO)
    end = _days(last)[1] if last else _NO_END
    days = (_days(first)[0], end) if to else _days(first)
    if days[0] > days[1]:
        raise ConfigError(
            f"The dates are {dates!r}. Expected the oldest first. Example: 2026-05..2026-08."
        )
    return days


def _days(date: str) -> tuple[str, str]:
    """Return the first and the last day of a year, a month or a day."""
    match = _DATE.fullmatch(date)
    if match is None or not _is_day(*match.groups()):
        raise ConfigError(
            f"The date is {date!r}. Expected a year, month or day, such as 2026, 2026-05 or "
            "2026-05-31, or two dates, such as 2026-05..2026-08."
        )
    year, month, day = match.groups()
    return f"{year}-{month or '01'}-{day or '01'}", f"{year}-{month or '12'}-{day or '31'}"


def _is_day(year: str, month: str | None, day: str | None) -> bool:
    """Return whether the calendar has this day; 30 February is not a day."""
    try:
        dt.date(int(year), int(month or 1), int(day or 1))
    except ValueError:
        return False
    return True


def _wrote(writer: str | None, name: str, model: Origin) -> bool:
    return writer is not None and writer.casefold() in {
        name.casefold(),
        (model.family or name).casefold(),
    }


def check_fresh(benchmark: Iterable[Item], fresh: Iterable[Item], names: tuple[str, str]) -> None:
    """Check that a held-out set shares no item with the benchmark.

    Parameters
    ----------
    benchmark : iterable of Item
        All items of the benchmark, not a sample: a model may have seen any of them.
    fresh : iterable of Item
        Items of the held-out set.
    names : tuple of str
        Names of the benchmark and of the held-out set.

    Raises
    ------
    ConfigError
        If the two sets share an item.
    """
    if shared := shared_items(benchmark, fresh):
        published, held_out = shared[0]
        raise ConfigError(
            f"{len(shared)} items of {names[1]} have the same text as an item of {names[0]}, such "
            f"as {held_out} and {published}. Remove them from control_benchmark."
        )


def shared_items(benchmark: Iterable[Item], fresh: Iterable[Item]) -> list[tuple[str, str]]:
    """Return the items that two sets share, ignoring case, punctuation and whitespace.

    Parameters
    ----------
    benchmark, fresh : iterable of Item
        Items of the benchmark and of the held-out set.

    Returns
    -------
    list of (str, str)
        For each shared item, its id in the benchmark and its id in the held-out set. Items are
        shared if their questions are equal. If the benchmark has the same question with several
        lists of options (about different passages), the options must be equal too.
    """
    known: dict[str, list[Item]] = {}
    for question in benchmark:
        known.setdefault(words_alone(question.text), []).append(question)
    pairs = []
    for question in fresh:
        same = known.get(words_alone(question.text), [])
        if len(same) > 1:
            options = set(map(words_alone, question.options))
            same = [item for item in same if set(map(words_alone, item.options)) == options]
        if same:
            pairs.append((same[0].id, question.id))
    return pairs
