"""`audit export tasks KEY=VALUE ...`: the items of an audit as tasks of lm-eval and of Inspect, to be asked where the
model already is. Each item carries our id, by which `audit import` joins the logs that come home."""

import json
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from audit.export.inspect_log import letter, number_text
from audit.records import ITEM_ID, Question

INSPECT_FILE = "audit_tasks.py"
_ASKED = "Question: {}\nAnswer:"
_TASK = """

@task
def {name}():
    return made("{name}", {numeric})
"""


def write_tasks(out: Path, sets: Mapping[str, Sequence[Question]]) -> dict[str, int]:
    """Write OUT/TASK.jsonl and TASK.yaml for each set, and one file for Inspect; {task: items}.

    sets: by name, such as arc_easy and arc_easy_variant_1; the items of one have options, or all have none.
    """
    import yaml

    from audit.shards.files import make_folder, write_file

    make_folder(out)
    code, found = files("audit.export").joinpath("inspect_tasks.txt").read_text(encoding="utf-8"), {}
    for name, questions in sets.items():
        task = "audit_" + re.sub(r"\W", "_", name, flags=re.ASCII)
        numeric = not questions[0].options
        lines = "".join(json.dumps(_row(one), ensure_ascii=False) + "\n" for one in questions)
        write_file(out / f"{task}.jsonl", lines.encode("utf-8", "backslashreplace"))
        write_file(out / f"{task}.yaml", yaml.safe_dump(_lm_eval(task, numeric), sort_keys=False).encode())
        code += _TASK.format(name=task, numeric=numeric)
        found[task] = len(questions)
    write_file(out / INSPECT_FILE, code.encode())
    return found


def _row(question: Question) -> dict[str, Any]:
    right = letter(question.gold) if question.options else number_text(question.target or 0.0)
    return {
        ITEM_ID: question.id, "question": question.text, "choices": list(question.options), "gold": question.gold,
        "target": right, "prompt": _ASKED.format(question.text),
    }  # fmt: skip


def _lm_eval(task: str, numeric: bool) -> dict[str, Any]:
    """Fields by their names, so that no item's text is read as a template."""
    asked: dict[str, Any] = {
        "output_type": "multiple_choice", "doc_to_choice": "choices", "doc_to_target": "gold",
        "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
    }  # fmt: skip
    if numeric:
        last = {"function": "regex", "regex_pattern": r"(-?\$?[0-9][0-9.,]*)", "group_select": -1}
        exact = {"metric": "exact_match", "aggregation": "mean", "higher_is_better": True,
                 "regexes_to_ignore": [",", r"\$", r"\.$"]}  # fmt: skip
        asked = {
            "output_type": "generate_until", "doc_to_target": "target", "metric_list": [exact],
            "generation_kwargs": {"until": ["\nQuestion:"], "do_sample": False, "max_gen_toks": 512},
            "filter_list": [{"name": "last_number", "filter": [last, {"function": "take_first"}]}],
        }  # fmt: skip
    return {
        "task": task, "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": f"{task}.jsonl"}},
        "test_split": "test", "doc_to_text": "prompt", **asked, "metadata": {"version": 1},
    }  # fmt: skip
