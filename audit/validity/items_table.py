"""Item by item, for the page and as csv: original and edits side by side, keys and responses before and after."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from itertools import groupby
from typing import Any

from audit.report.page import Segments, word_diff
from audit.validity.cells import ItemRows, Key, Row, response_of
from audit.validity.design import Arm
from audit.validity.present import fits
from audit.validity.result import ValidityResult
from audit.verdict.tables import csv_pieces

MAX_ITEMS_ON_PAGE = 200  # over all cells; items.csv has every row
_STATE = ("arm", "asked", "contract", "canonical", "key_after")
_OF_CSV = (*_STATE, "variant", "replicate", "edit", "key_before", "correct", "why")
_LONG = 1200  # characters of a prompt or reply on the page


@dataclass(frozen=True)
class Shown:
    """One row as the page shows it. state: follows, breaks, none (no answer), absent, original. segments: what differs
    is marked."""

    arm: str
    label: str
    contract: str
    segments: Segments
    prompt: str
    key: str
    said: str
    state: str
    right: bool | None
    reply: str


@dataclass(frozen=True)
class Item:
    """One item of one cell. marks: what a filter of the page can ask for."""

    cell: str
    question_id: str
    title: str
    marks: tuple[str, ...]
    rows: tuple[Shown, ...]
    options: tuple[str, ...]

    @property
    def example(self) -> list[Shown]:
        """The original, an edit of its surface and one of its content; of each the first with an unexpected answer."""
        content = [row for row in self.rows if row.arm == Arm.ATTRIBUTE]
        surface = [row for row in self.rows if row.arm in (Arm.FORMAT, Arm.SEMANTIC)]
        first = (next((x for x in some if x.state == "breaks"), some[0]) for some in (surface, content) if some)
        return [self.rows[0], *first]


def top_items(rows: ItemRows, results: Sequence[ValidityResult], limit: int = MAX_ITEMS_ON_PAGE) -> list[Item]:
    """Items whose contracts are broken first, as many of each cell as fit into `limit`."""
    share = max(1, limit // max(1, len(results)))
    first: dict[tuple[str, ...], list[Key]] = {}
    for cell, items in groupby(rows.by_item(*_STATE), lambda one: one[0][:3]):
        counted = ((-sum(_state(row, own[0]) == "breaks" for row in own), key) for key, own in items)
        first[cell] = [key for _, key in nsmallest(share, counted)]
    chosen = [(key, r) for r in results for key in first.get((r.model, r.benchmark, r.context), ())]
    whole = rows.whole([key for key, _ in chosen])
    return [_item(key, whole[key], r) for key, r in chosen]


def state_of(row: Row, response: int | None, before: int | None) -> str:
    """What became of a row's contract. response, before: canonical, of this row and of the original."""
    if not row["asked"]:
        return "absent"
    if row["arm"] == Arm.ORIGINAL:
        return "original" if response is not None else "none"
    if response is None or before is None:
        return "none"
    if row["contract"] == "directional":
        return "follows" if response != before and fits(response, row["key_after"]) else "breaks"
    return "follows" if response == before else "breaks"


def _state(row: Row, first: Row) -> str:
    return state_of(row, row["canonical"], first["canonical"])


def _item(key: Key, rows: list[Row], result: ValidityResult) -> Item:
    first = rows[0]
    before = response_of(first)
    shown = tuple(_shown(row, first, before) for row in rows if row["asked"])
    texts = _published(first)
    marks = sorted(
        {f"{row['arm']}-{one.state}" for row, one in zip((r for r in rows if r["asked"]), shown, strict=True)}
    )
    marks += [f"gate-{g.name}" for g in result.gates if key[3] in g.items]
    cell = f"{result.model} on {result.benchmark}" + (f" ({result.context})" if result.context else "")
    return Item(cell, key[3], first["edited"], tuple(marks), shown, texts)


def _shown(row: Row, first: Row, before: int | None) -> Shown:
    texts = _published(first)
    if row["arm"] == Arm.ORIGINAL:
        label = "original" + (f", sent again ({row['replicate'] + 1})" if row["replicate"] else "")
        segments = [(row["edited"], "")]
    else:
        label = f"{row['arm']} {row['variant']}: {row['edit']}"
        segments = word_diff(first["edited"], row["edited"])
    response = response_of(row)
    if row["error"] is not None:
        said = f"failed: {row['error']}"
    elif response is None:
        said = f"not read ({row['unread_why'] or 'no answer'})"
    else:
        said = _name(texts, response)
    return Shown(
        arm=row["arm"],
        label=label,
        contract=row["contract"] or "",
        segments=segments,
        prompt=row["prompt"][:_LONG],
        key=_name(texts, row["key_after"]),
        said=said,
        state=state_of(row, response, before),
        right=row["correct"],
        reply=row["response"][:_LONG],
    )


def _published(row: Row) -> tuple[str, ...]:
    return tuple(text for _, text in sorted(zip(row["option_order"], row["options"], strict=True)))


def _name(texts: Sequence[str], key: int) -> str:
    """An option by its text; a key of any but one says so."""
    if key >= 0:
        return texts[key] if key < len(texts) else str(key)
    return f"anything but: {texts[-2 - key]}"


def items_csv(rows: ItemRows) -> Iterator[str]:
    """Every row, in pieces: canonical keys and responses before and after, and what became of the contract."""
    header = (
        "model", "benchmark", "context", "question_id", "family", "level", "replicate", "edit", "contract",
        "key_before", "key_after", "response_before", "response_after", "contract_state", "right", "why_unread",
    )  # fmt: skip
    return csv_pieces(header, (line for key, found in rows.by_item(*_OF_CSV) for line in _lines(key, found)))


def _lines(key: Key, rows: Sequence[Row]) -> Iterator[tuple[Any, ...]]:
    before = rows[0]["canonical"] if rows[0]["arm"] == Arm.ORIGINAL else None
    for row in rows:
        yield (
            *key, row["arm"], row["variant"], row["replicate"], row["edit"], row["contract"], row["key_before"],
            row["key_after"], before, row["canonical"], state_of(row, row["canonical"], before),
            "" if row["correct"] is None else int(row["correct"]), row["why"],
        )  # fmt: skip
