"""Export the items of an audit as tasks for lm-eval and Inspect: `audit export tasks KEY=VALUE
...`.

The tasks can be run on any machine that has the model. Each item has an id, by which `audit import`
later matches the answers in the logs to the items.
"""

import json
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from audit.core.records import ITEM_ID, Item
from audit.export.inspect_log import letter, number_text
from audit.shards.files import make_folder, write_file

INSPECT_FILE = "audit_tasks.py"
_PROMPT = "Question: {}\nAnswer:"
_TASK = """

@task
def {name}():
    return made("{name}", {numeric})
"""


def write_tasks(out: Path, sets: Mapping[str, Sequence[Item]]) -> dict[str, int]:
    """Write TASK.jsonl and TASK.yaml for each set, and one file for Inspect.

    Parameters
    ----------
    out : Path
        Folder to write into.
    sets : mapping
        Maps the name of each set, such as arc_easy or arc_easy_variant_1, to its items. Items with
        options and items without options must be in different sets.

    Returns
    -------
    dict
        Maps the name of each task to its number of items.
    """
    make_folder(out)
    code, counts = _text("inspect_tasks"), {}
    for name, questions in sets.items():
        task = "audit_" + re.sub(r"\W", "_", name, flags=re.ASCII)
        numeric = not questions[0].options
        lm_eval = _text("lm_eval_number" if numeric else "lm_eval_choice").replace("TASK", task)
        lines = [json.dumps(_row(question), ensure_ascii=False) + "\n" for question in questions]
        rows = "".join(lines).encode("utf-8", "backslashreplace")
        write_file(out / f"{task}.jsonl", rows)
        write_file(out / f"{task}.yaml", lm_eval.encode())
        code += _TASK.format(name=task, numeric=numeric)
        counts[task] = len(questions)
    write_file(out / INSPECT_FILE, code.encode())
    return counts


def _text(name: str) -> str:
    """Return the text of a template file in this package.

    The template refers to the fields of an item by name, so the text of an item is never
    interpreted as a template.
    """
    return files("audit.export").joinpath(f"{name}.txt").read_text(encoding="utf-8")


def _row(item: Item) -> dict[str, Any]:
    right = letter(item.gold) if item.options else number_text(item.target or 0.0)
    return {
        ITEM_ID: item.id,
        "question": item.text,
        "choices": list(item.options),
        "gold": item.gold,
        "target": right,
        "prompt": _PROMPT.format(item.text),
    }
