"""Write the tables of LiveCodeBench's LeetCode problems from performances_generation.json, in this
folder.

leetcode.csv and dates.csv are those of findings/livecodebench.md, the others are those of "Five
commands" (import_logs.md)."""

import csv
import datetime as dt
import json
import re
from collections.abc import Iterable
from pathlib import Path

JUDGED = "DSCoder-33b-Ins"
# A part of a model's name, and the family of the model that it was built on.
BASES = {
    "DS": "deepseek",
    "WCoder-33B": "deepseek",
    "lama": "llama",
    "CL-7B": "llama",
    "Phind": "llama",
    "WCoder-34B": "llama",
    "Eurux": "mistral",
    "Smaug": "qwen",
    "CodeQwen": "qwen",
}


def family(model: str) -> str:
    """Return the family of the base model, else the letters that the name begins with."""
    bases = [base for part, base in BASES.items() if part in model]
    return bases[0] if bases else re.split("[^A-Za-z]", model)[0].lower()


def write(name: str, header: tuple[str, ...], lines: Iterable[tuple[str, ...]]) -> None:
    """Write one csv file."""
    with Path(name).open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *lines])


def main() -> None:
    """Write the five tables."""
    published = json.loads(Path("performances_generation.json").read_text(encoding="utf-8"))
    rows = [row for row in published["performances"] if row["platform"] == "leetcode"]
    # LiveCodeBench states of each model when its training ended.
    ended = {
        one["model_repr"]: dt.datetime.fromtimestamp(one["release_date"] / 1000, dt.UTC)
        .date()
        .isoformat()
        for one in published["models"]
    }
    lines = []
    for row in rows:
        right = f"{round(row['pass@1'] / 10)}/10"
        day = dt.datetime.fromtimestamp(row["date"] / 1000, dt.UTC).date().isoformat()
        lines.append((row["model"], row["question_id"], right, day))
    mine = [line for line in lines if line[0] == JUDGED]
    others = [line for line in lines if "DSCoder" not in line[0]]
    for name, some in (("leetcode", lines), ("mine", mine), ("published", others)):
        write(f"{name}.csv", ("model", "item", "correct", "date"), some)
    models = sorted({row["model"] for row in rows})
    header = ("model", "released", "family")
    write("dates.csv", header, [(model, ended[model], "") for model in models])
    families = [(one, ended[one], family(one)) for one in models if "DSCoder" not in one]
    write("families.csv", header, families)


if __name__ == "__main__":
    main()
