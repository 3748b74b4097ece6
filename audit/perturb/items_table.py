"""Item by item, for the page and as csv: the original and its variants side by side, the most conspicuous first."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from audit.perturb.audit import SCHEMA
from audit.perturb.design import Arm
from audit.perturb.record import PerturbCell
from audit.perturb.vocabulary import PerturbResult
from audit.report.page import Segments, word_diff
from audit.shards.read import iter_rows
from audit.statistics.wording_drop import item_means
from audit.verdict.result import finite
from audit.verdict.tables import csv_text, digits

MAX_ITEMS_ON_PAGE = 400  # over all judged models; items.csv has every item
_COLUMNS = (
    "model", "benchmark", "question_id", "arm", "variant", "replicate", "question", "options", "wording", "distance",
    "asked", "answer", "answer_number", "gold", "target", "correct", "parsed", "response", "error",
)  # fmt: skip

Key = tuple[str, str, str]  # model, benchmark, question id


@dataclass(frozen=True)
class Shown:
    """One wording as the page shows it. said: the answer in words; state: correct, wrong, none (no answer), absent."""

    label: str
    segments: Segments
    distance: float | None
    state: str
    said: str


@dataclass(frozen=True)
class Item:
    """One item of one judged model. marks: what a filter of the page can ask for. drop: 0-1."""

    model: str
    benchmark: str
    question_id: str
    options: tuple[str, ...]
    gold: int
    drop: float | None
    pvalue: float | None
    flagged: bool
    marks: tuple[str, ...]
    wordings: tuple[Shown, ...]

    @property
    def example(self) -> tuple[Shown, Shown]:
        """The original, and the first variant that was answered otherwise, or else the last."""
        first = self.wordings[0]
        reworded = [one for one in self.wordings if one.label.startswith("variant")]
        return first, next((one for one in reworded if one.state != first.state), self.wordings[-1])


def top_items(
    run_dir: Path, cells: Sequence[PerturbCell], results: Sequence[PerturbResult], limit: int = MAX_ITEMS_ON_PAGE
) -> list[Item]:
    """The first items of each judged model's ranked list, as many of each model as fit into `limit`."""
    wanted: dict[Key, tuple[PerturbResult, int]] = {}
    for cell, result in zip(cells, results, strict=True):
        order = result.evidence.items.order.tolist() if result.evidence else list(range(cell.n))
        for i in order[: max(1, limit // max(1, len(cells)))]:
            wanted[result.model, result.benchmark, cell.question_ids[i]] = result, i
    rows: dict[Key, list[dict[str, Any]]] = {}
    for row in chain.from_iterable(iter_rows(run_dir, SCHEMA, _COLUMNS, _COLUMNS[:3], wanted, 1 << 14)):
        rows.setdefault((row["model"], row["benchmark"], row["question_id"]), []).append(row)
    return [_item(key, rows[key], result, i) for key, (result, i) in wanted.items() if key in rows]


def _item(key: tuple[str, str, str], rows: list[dict[str, Any]], result: PerturbResult, i: int) -> Item:
    rows = sorted(rows, key=lambda row: (row["variant"], row["replicate"]))
    first = rows[0]
    shown = tuple(_shown(row, first["question"]) for row in rows)
    states = {one.state for one in shown}
    items = result.evidence.items if result.evidence else None
    flagged = bool(items.flagged[i]) if items else False
    drop = finite(items.drop[i]) if items else None
    marks = [name for name, there in (
        ("flagged", flagged), ("falls", drop is not None and drop > 0), ("rises", drop is not None and drop < 0),
        ("same", drop == 0), ("none", "none" in states), ("absent", "absent" in states),
    ) if there]  # fmt: skip
    marks += [f"gate-{g.name}" for g in result.gates if key[2] in g.items]
    return Item(
        model=key[0],
        benchmark=key[1],
        question_id=key[2],
        # A number has no options: the right one stands in their place.
        options=tuple(first["options"]) or (() if first["target"] is None else (f"{first['target']:g}",)),
        gold=int(first["gold"]) if first["options"] else 0,
        drop=drop,
        pvalue=finite(items.pvalues[i]) if items else None,
        flagged=flagged,
        marks=tuple(marks),
        wordings=shown,
    )


def _shown(row: dict[str, Any], original: str) -> Shown:
    if row["arm"] == Arm.ORIGINAL:
        label, segments = "original", [(row["wording"], "")]
        label += f", run {row['replicate'] + 1}" if row["replicate"] else ""
    else:
        label, segments = f"variant {row['variant']}", word_diff(original, row["wording"])
    if not row["asked"]:
        return Shown(label, [], None, "absent", "not in the library: not asked")
    if row["error"] is not None:
        return Shown(label, segments, row["distance"], "none", f"failed: {row['error']}")
    if not row["parsed"]:
        return Shown(label, segments, row["distance"], "none", f"unreadable: {row['response']}")
    state = "correct" if row["correct"] else "wrong"
    if row["answer"] is not None:
        answer = str(row["options"][row["answer"]])
    else:  # of an imported answer nothing but the reply may be known
        answer = row["response"] or state if row["answer_number"] is None else f"{row['answer_number']:g}"
    return Shown(label, segments, row["distance"], state, answer)


def items_csv(cells: Sequence[PerturbCell], results: Sequence[PerturbResult]) -> str:
    """Every item of every judged model, the most conspicuous first. Shares 0-1; empty: not computed."""
    header = (
        "model", "benchmark", "question_id", "original", "variants", "drop", "drop_beyond_references", "p",
        "p_adjusted", "flagged",
    )  # fmt: skip
    body = []
    for cell, result in zip(cells, results, strict=True):
        if result.evidence is None:
            continue
        items = result.evidence.items
        o, v = item_means(*cell.tested.pair)
        for i in items.order.tolist():
            numbers = (o[i], v[i], items.drop[i], items.beyond[i], items.pvalues[i], items.adjusted[i])
            who = (result.model, result.benchmark, cell.question_ids[i])
            body.append([*who, *map(digits, numbers), int(items.flagged[i])])
    return csv_text(header, body)
