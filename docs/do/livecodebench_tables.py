"""Write the tables of LiveCodeBench's LeetCode problems from performances_generation.json, in this
folder.

leetcode.csv and dates.csv are those of findings/livecodebench.md, the others are those of "Five
commands" (import_logs.md)."""

import csv
import datetime as dt
import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

JUDGED = "DSCoder-33b-Ins"
# 2023-09-01, in milliseconds
CUT_OFF = 1693526400000
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
    """Write the seven tables."""
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
        side = "after" if row["date"] >= CUT_OFF else "before"
        right = str(round(row["pass@1"] / 10))
        day = datetime.fromtimestamp(row["date"] / 1000, UTC).date().isoformat()
        lines.append((row["model"], row["question_id"], right, "10", side, day))
    write("leetcode.csv", ("model", "item", "right", "n", "benchmark", "date"), lines)
    for name, newer in (("seen", False), ("new", True)):
        mine, others = [], []
        for row in rows:
            if (row["date"] >= CUT_OFF) == newer:
                line = (row["model"], row["question_id"], f"{round(row['pass@1'] / 10)}/10")
                if row["model"] == JUDGED:
                    mine.append(line)
                elif "DSCoder" not in row["model"]:
                    others.append(line)
        write(f"mine_{name}.csv", ("model", "item", "correct"), mine)
        write(f"published_{name}.csv", ("model", "item", "correct"), others)
    models = sorted({row["model"] for row in rows})
    header = ("model", "released", "family")
    write("dates.csv", header, [(model, ended[model], "") for model in models])
    families = [(one, ended[one], family(one)) for one in models if "DSCoder" not in one]
    write("families.csv", header, families)


if __name__ == "__main__":
    main()
