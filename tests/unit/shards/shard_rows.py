"""Rows for the shard tests."""

from pathlib import Path
from typing import Any

from outcome_tables import Outcome, outcomes_to_table

from audit.core.records import Reading
from audit.shards.attempt import start_attempt
from audit.shards.files import SHARDS
from audit.shards.shard_file import ShardInfo
from audit.shards.write import write_shard
from audit.sweep.audit import SCHEMA
from audit.sweep.design import Arm, Draws


def row(
    question: int = 0,
    routers: int = 1,
    arm: Arm = Arm.NOISY_REWRITE,
    model: str = "m",
    replicate: int = 0,
    **changes: Any,
) -> Outcome:
    values: dict[str, Any] = {
        "model": model,
        "model_revision": "abc",
        "benchmark": "b",
        "question_id": f"q{question}",
        "group": f"g{question % 3}",
        "arm": arm,
        "routers": routers,
        "replicate": replicate,
        "draws": Draws.INDEPENDENT,
        "reading": Reading.LETTER,
        "question": f"question {question}?",
        "options": ("a", "b", "c", "d"),
        "router_messages": tuple(f"message {k} about {question}" for k in range(routers)),
        "router_finish_reasons": ("stop",) * routers,
        "prompt": "answer",
        "response": "A",
        "answer": 0,
        "gold": question % 4,
        "correct": question % 4 == 0,
        "parsed": True,
        "answer_form": "strict",
        "finish_reason": "stop",
        "option_logprobs": (),
        "prompt_tokens": 10,
        "cached_tokens": 4,
        "completion_tokens": 1,
        "router_prompt_tokens": 20,
        "router_cached_tokens": 8,
        "router_completion_tokens": 30,
        "engine_id": "e0",
        "reasked": False,
        "router_engine_ids": ("e0",) * routers,
        "seed": 7,
    }
    return Outcome(**{**values, **changes})


def failed(question: int, routers: int = 1, **changes: Any) -> Outcome:
    lost = {
        "error": "prompt too long",
        "answer": None,
        "correct": None,
        "parsed": False,
        "finish_reason": "error",
    }
    return row(question, routers, **{**lost, **changes})


def new_run(path: Path) -> tuple[Path, str]:
    """A run directory with an attempt."""
    (path / SHARDS).mkdir(parents=True)
    return path, start_attempt(path)


def write(run: Path, attempt: str, *rows: Outcome, format: str = "arrow") -> ShardInfo:
    return write_shard(run, outcomes_to_table(list(rows)), SCHEMA, attempt=attempt, format=format)


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())
