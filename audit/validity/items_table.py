"""Item by item, for the page and as csv: original and edits side by side, keys and responses before and after."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audit.report.diff import Segments, word_diff
from audit.shards.read import iter_columns
from audit.validity.columns import SCHEMA
from audit.validity.design import Arm
from audit.validity.judge import read_judgements
from audit.validity.present import fits
from audit.validity.result import ValidityResult
from audit.verdict.tables import csv_text

MAX_ITEMS_ON_PAGE = 200  # over all cells; items.csv has every row
_COLUMNS = (
    "model", "benchmark", "context", "question_id", "arm", "variant", "replicate", "edit", "contract", "asked",
    "edited", "prompt", "options", "option_order", "key_before", "key_after", "answer", "response", "correct", "parsed",
    "unread_why", "error", "request_sha256",
)  # fmt: skip
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


def read_rows(run_dirs: Sequence[Path]) -> dict[tuple[str, str, str, str], list[dict[str, Any]]]:
    """Rows by (model, benchmark, context, question id), each in the order of arm and level."""
    order = {arm: k for k, arm in enumerate(Arm)}
    found: dict[tuple[str, str, str, str], list[dict[str, Any]]] = {}
    for run_dir in run_dirs:
        judge = read_judgements(run_dir)
        for row in _rows_of(run_dir):
            if judge is not None:
                judge.read(row)
            found.setdefault((row["model"], row["benchmark"], row["context"], row["question_id"]), []).append(row)
    for rows in found.values():
        rows.sort(key=lambda r: (order[Arm(r["arm"])], r["variant"], r["replicate"]))
    return dict(sorted(found.items()))


def _rows_of(run_dir: Path) -> Iterator[dict[str, Any]]:
    for batch in iter_columns(run_dir, SCHEMA, _COLUMNS, batch_size=1 << 12):
        yield from batch.to_pylist()


def top_items(
    rows: dict[tuple[str, str, str, str], list[dict[str, Any]]],
    results: Sequence[ValidityResult],
    limit: int = MAX_ITEMS_ON_PAGE,
) -> list[Item]:
    """Items whose contracts are broken first, as many of each cell as fit into `limit`."""
    share = max(1, limit // max(1, len(results)))
    found: list[Item] = []
    for r in results:
        own = [_item(key, rs, r) for key, rs in rows.items() if key[:3] == (r.model, r.benchmark, r.context)]
        own.sort(key=lambda item: (-sum(one.state == "breaks" for one in item.rows), item.question_id))
        found += own[:share]
    return found


def response_of(row: dict[str, Any]) -> int | None:
    """The canonical response of a row."""
    return None if row["answer"] is None else int(row["option_order"][row["answer"]])


def state_of(row: dict[str, Any], before: int | None) -> str:
    """What became of a row's contract."""
    if not row["asked"]:
        return "absent"
    response = response_of(row)
    if row["arm"] == Arm.ORIGINAL:
        return "original" if response is not None else "none"
    if response is None or before is None:
        return "none"
    if row["contract"] == "directional":
        return "follows" if response != before and fits(response, row["key_after"]) else "breaks"
    return "follows" if response == before else "breaks"


def _item(key: tuple[str, str, str, str], rows: list[dict[str, Any]], result: ValidityResult) -> Item:
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


def _shown(row: dict[str, Any], first: dict[str, Any], before: int | None) -> Shown:
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
        state=state_of(row, before),
        right=row["correct"],
        reply=row["response"][:_LONG],
    )


def _published(row: dict[str, Any]) -> tuple[str, ...]:
    return tuple(text for _, text in sorted(zip(row["option_order"], row["options"], strict=True)))


def _name(texts: Sequence[str], key: int) -> str:
    """An option by its text; a key of any but one says so."""
    if key >= 0:
        return texts[key] if key < len(texts) else str(key)
    return f"anything but: {texts[-2 - key]}"


def items_csv(rows: dict[tuple[str, str, str, str], list[dict[str, Any]]]) -> str:
    """Every row: canonical keys and responses before and after, and what became of the contract."""
    header = (
        "model", "benchmark", "context", "question_id", "family", "level", "replicate", "edit", "contract",
        "key_before", "key_after", "response_before", "response_after", "contract_state", "right", "why_unread",
    )  # fmt: skip
    body = []
    for key, found in rows.items():
        before = response_of(found[0]) if found[0]["arm"] == Arm.ORIGINAL else None
        body += [
            (*key, row["arm"], row["variant"], row["replicate"], row["edit"], row["contract"], row["key_before"],
             row["key_after"], before, response_of(row), state_of(row, before),
             "" if row["correct"] is None else int(row["correct"]), row["error"] or row["unread_why"])
            for row in found
        ]  # fmt: skip
    return csv_text(header, body)
