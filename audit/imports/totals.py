"""Refuse what holds no outcome of an item: totals, samples without results, a judge's marks. Each
says what to give.

As openai/simple-evals (simple_evals.py), lm-sys/FastChat (fastchat/llm_judge/common.py,
gen_judgment.py), huggingface/lighteval, open-compass/opencompass and evalplus/evalplus write them.
"""

from pathlib import Path
from typing import Any

from audit.core.errors import ConfigError


class NoOutcomesError(ConfigError):
    """A file is known and holds no outcome of an item; in a folder it is left out."""


_SOLUTION = {"task_id", "solution", "completion", "raw_solution", "completion_id", "_identifier"}
# Fields of FastChat's marks, beside model and score, or model_1, model_2 and g1_winner.
_MARKED = {
    "question_id",
    "judge",
}
_REPLIES = {"question_id", "answer_id", "choices"}


def refuse_numbers(path: Path, found: dict[str, Any]) -> None:
    """Raise NoOutcomesError if an object that is a whole file holds numbers alone."""
    kinds = {type(value) for value in found.values()}
    if kinds and kinds <= {int, float}:
        kind = "simple-evals" if any(name.endswith(":std") for name in found) else "an evaluation"
        advice = (
            "With OpenCompass, run.py --dump-eval-details writes them. "
            if "accuracy" in found
            else ""
        )
        totals = (
            f"{path} holds totals of {kind} alone ({', '.join(list(found)[:4])}): no item is in it"
        )
        raise NoOutcomesError(
            f"{totals}. {advice}Example: a table with the columns model, item, correct."
        )


def refuse_totals(path: Path, found: Any) -> None:
    """Raise NoOutcomesError if a document, or the first object of a file, is of such a format."""
    reason = _reason(found) if isinstance(found, dict) and found else ""
    if reason:
        raise NoOutcomesError(f"{path} {reason}")


def _reason(found: dict[str, Any]) -> str:
    names = set(found)
    if {"results", "configs"} <= names:
        return "holds totals alone. Give the samples_*.jsonl beside it: --log_samples writes them."
    if {"results", "config_general"} <= names:
        return "holds totals of lighteval alone. Give details_*.parquet: lighteval --save-details writes them."
    if names >= _MARKED and names & {"score", "g1_winner"}:
        return "holds marks of a judge (MT-bench), from 1 to 10 or -1. Expected right or wrong answers to items."
    if names >= _REPLIES:
        return (
            "holds replies of FastChat without a score. Expected right or wrong answers to items."
        )
    if "task_id" in names and names & {"solution", "completion"} and names <= _SOLUTION:
        return "holds solutions alone. Give the *_eval_results.json: evalplus.evaluate --samples writes it."
    if {"score", "metrics", "htmls"} <= names:
        return "holds totals of simple-evals and its pages. It has no score of an item."
    return ""
