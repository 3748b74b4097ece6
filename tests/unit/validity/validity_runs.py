"""A whole validity run on disk without a pipeline: edits, shards and manifest, with answers drawn
at random."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from audit.benchmarks.items import ContrastFacts
from audit.core.records import Item
from audit.scoring.reference import ReferenceScorer, find_scorer, self_test
from audit.shards.attempt import start_attempt
from audit.shards.files import SHARDS
from audit.shards.manifest import Manifest
from audit.shards.write import write_shard
from audit.validity.audit import SCHEMA
from audit.validity.design import ValidityThresholds, make_design
from audit.validity.edits.file import EditFile, read_edits, to_table, write_edits
from audit.validity.edits.plan import Partners, Plan, build_plan
from audit.validity.edits.record import Edit, context_of, formats_of

PER_FAMILY, SPARES, REPLAYS = 3, 1, 2


def contrast_items(n: int, length: int = 60) -> list[Item]:
    """Items of two conditions; every seventh lacks one of its attribute edits. length: words of
    each."""
    return [
        Item(
            f"contrast/{i}",
            "contrast",
            f"Which of the pets of house {i} barks, {'and so on ' * (length // 3)}?",
            (f"dog {i}", f"a cat, {i}", f"=fish {i}"),
            i % 3,
            f"contrast/{i // 2}",
            condition=("moved", "kept")[i % 2],
            facts=ContrastFacts(
                (f"Of house {i}, which pet barks?",),
                tuple(
                    (f"Which of {i} {k} meows?", (i + i % 2) % 3) for k in range(3 - (i % 7 == 3))
                ),
            ),
        )
        for i in range(n)
    ]


def plan_with(
    scorer: ReferenceScorer, items: Sequence[Item], partners: Partners | None = None, **changes: Any
) -> Plan:
    """Two edits of each family and one to spare, in the scorer's own formats."""
    options = {"formats": formats_of(scorer), "library": None, "per_family": 2, "spares": 1}
    return build_plan(items, scorer, partners or Partners(items, 1), **options | changes)


def edits_of(folder: Path, items: Sequence[Item], scorer: str, **changes: Any) -> EditFile:
    """These edits from their file."""
    return read_edits(
        write_edits(to_table(plan_with(find_scorer(scorer), items, **changes), scorer), folder)
    )


def write_run(
    folder: Path,
    items: Sequence[Item],
    scorer: str,
    models: Sequence[str] = ("m",),
    seed: int = 0,
    shard: int = 500,
) -> Path:
    """A finished run. Some replies fail, some are unread, some edits are the original's very
    request. shard: rows."""
    (folder / SHARDS).mkdir(parents=True)
    chosen, design = find_scorer(scorer), make_design(PER_FAMILY, SPARES, REPLAYS)
    edits = edits_of(folder, items, scorer, per_family=PER_FAMILY, spares=SPARES)
    attempt, rng = start_attempt(folder), np.random.default_rng(seed)
    settings = [(part.arm, level, part.replicate) for part in design.parts for level in part.levels]
    keys = [(model, item, setting) for model in models for item in items for setting in settings]
    listed = [
        write_shard(
            folder,
            pa.Table.from_pylist(
                list(_rows(edits, scorer, keys[start : start + shard], rng)), schema=SCHEMA.columns
            ),
            SCHEMA,
            attempt=attempt,
        ).record()
        for start in range(0, len(keys), shard)
    ]
    benchmark = items[0].benchmark
    facts = {
        "name": scorer,
        "benchmark": chosen.benchmark,
        "reference_of": chosen.reference_of,
        "evidence": [],
        "validated": True,
        "lettered": chosen.lettered,
        "injected": [],
        "chance": {item.id: chosen.chance(item) for item in items},
        "self_test": {**asdict(test := self_test(chosen, items[:60])), "passed": test.passed},
    }
    Manifest(
        fingerprint="f" * 64,
        config={},
        audit="validity",
        schema_version=SCHEMA.version,
        status="finished",
        started="2026-11-01T08:00:00+00:00",
        ended="2026-11-01T09:00:00+00:00",
        models={m: {} for m in models},
        benchmark={benchmark: {"n": len(items)}},
        settings=[asdict(setting) for setting in design.settings],
        sampled_ids={benchmark: [item.id for item in items]},
        shards=listed,
        analysis={
            "seed": 1,
            "thresholds": ValidityThresholds().to_dict(),
            "edits_per_family": PER_FAMILY,
            "scorer": facts,
        },
    ).save(folder)
    return folder


def _rows(
    edits: EditFile, scorer: str, keys: Sequence[Any], rng: np.random.Generator
) -> Iterator[dict[str, Any]]:
    benchmark = find_scorer(scorer).benchmark
    for model, original, (arm, level, replicate) in keys:
        edit = None if level == 0 else edits.edits.get((original.id, arm, level))
        item = edit.item if edit else original
        presented, luck = level == 0 or edit is not None, rng.random()
        answer = (
            int(rng.integers(len(item.options))) if luck < 0.5 else item.key if item.key >= 0 else 0
        )
        error = (
            None
            if presented and luck > 0.02
            else "no reply: timeout"
            if presented
            else "nothing was asked"
        )
        read = error is None and luck < 0.97
        same = level == 0 or (arm == "format" and level == 1 and luck < 0.3)
        sent = f"tokens:{original.id}{'' if same else (arm, level)}" if error is None else None
        yield row_of(
            original,
            item,
            arm,
            level,
            edit,
            answer if read else None,
            model=model,
            replicate=replicate,
            response=f"It is {answer}, I say." if error is None else "",
            error=error,
            request_sha256=sent,
            context=context_of(original, benchmark),
            asked=presented,
            edited=item.text if presented else "",
            scorer=scorer,
            prompt=f"Answer. {item.text}" if presented else "",
            unread_why="" if read or error else "tied",
            label_mass=luck if read and level < 2 else None,
        )


def row_of(
    original: Item,
    item: Item,
    arm: str,
    level: int,
    edit: Edit | None,
    answer: int | None,
    **more: Any,
) -> dict[str, Any]:
    """A row of an item as asked. answer: the canonical response."""
    read = answer is not None
    return {
        "model": "m",
        "model_revision": "r",
        "benchmark": original.benchmark,
        "question_id": original.id,
        "group": original.group,
        "arm": arm,
        "variant": level,
        "replicate": 0,
        "reading": "letter",
        "question": original.text,
        "options": list(item.options),
        "prompt": f"Answer. {item.text}",
        "response": f"It is {answer}, I say.",
        "answer": item.shown.index(answer) if read else None,
        "gold": item.shown.index(item.key) if item.key >= 0 else -1,
        "correct": (answer == item.key if item.key >= 0 else answer != -2 - item.key)
        if read
        else None,
        "parsed": read,
        "answer_form": "strict" if read else "none",
        "finish_reason": "stop",
        "error": None,
        "request_sha256": f"tokens:{original.id}{arm}{level}",
        "edit": edit.name if edit else None,
        "contract": edit.contract.value if edit else None,
        "context": "",
        "asked": True,
        "edited": item.text,
        "option_order": list(item.shown),
        "key_before": original.key,
        "key_after": item.key,
        "scorer": "s",
        "unread_why": "" if read else "tied",
        "label_mass": None,
        **more,
    }
