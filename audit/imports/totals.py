"""Refuse files without outcomes of single items.

Such files contain totals, samples without results, or a judge's marks. Each error message states
which file to give instead.

The formats are those of openai/simple-evals (simple_evals.py), lm-sys/FastChat
(fastchat/llm_judge/common.py, gen_judgment.py), ShishirPatil/gorilla (bfcl_eval),
huggingface/lighteval, open-compass/opencompass and evalplus/evalplus.
"""

from pathlib import Path
from typing import Any

from audit.core.errors import ConfigError


class NoOutcomesError(ConfigError):
    """Report that a file has a known format, but contains no outcome of a single item.

    In a folder of logs, such a file is left out.
    """


_SOLUTION = {"task_id", "solution", "completion", "raw_solution", "completion_id", "_identifier"}
# A judge's marks by FastChat have these fields. They also have the fields model and score, or
# model_1, model_2 and g1_winner.
_MARKED = {
    "question_id",
    "judge",
}
_REPLIES = {"question_id", "answer_id", "choices"}
# The first object of a score file of BFCL has these fields. The other objects are wrong answers.
_BFCL = {"accuracy", "correct_count", "total_count"}


def refuse_numbers(path: Path, content: dict[str, Any]) -> None:
    """Refuse a file that is a JSON object with only numbers.

    Raises
    ------
    NoOutcomesError
        If the object holds only numbers.
    """
    kinds = set(map(type, content.values()))
    if kinds and kinds <= {int, float}:
        kind, advice = "an evaluation", ""
        if any(name.endswith(":std") for name in content):
            kind = "simple-evals"
        if "accuracy" in content:
            advice = "With OpenCompass, run.py --dump-eval-details writes them. "
        names = ", ".join(list(content)[:4])
        raise NoOutcomesError(
            f"{path} holds totals of {kind} only ({names}) and no single items. "
            f"{advice}Example: a table with the columns model, item, correct."
        )


def refuse_totals(path: Path, content: Any) -> None:
    """Refuse a file in a known format without outcomes.

    The format is recognised by the document, or by the first object of the file.

    Raises
    ------
    NoOutcomesError
        If the format has no outcomes of items.
    """
    reason = _reason(content) if isinstance(content, dict) and content else ""
    if reason:
        raise NoOutcomesError(f"{path} {reason}")


def _reason(content: dict[str, Any]) -> str:
    names = set(content)
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
    if names == _BFCL:
        return (
            "holds totals and wrong answers of BFCL, without the right answers. Expected a table "
            "of all items. Example: columns model, item and correct, with 0 for each id of this file."
        )
    if {"score", "metrics", "htmls"} <= names:
        return "holds totals of simple-evals and its pages. It has no score of an item."
    return ""
