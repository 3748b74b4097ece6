"""A run from before the redesign (commit 592d6a9): its shards in today's schema, and its verdict as golden values.

    git worktree add /tmp/before 592d6a9 && cd /tmp/before
    python -m audit.sweep model=scripted r=1..5 n=120 draws=nested clean_replicates=3 ensemble_control=true \\
        model.scripted.scripted.parse_failures=0.01 model.scripted.scripted.gain_per_router=0.05 run_dir=/tmp/old

Then, with the program that is to judge the same rows on PYTHONPATH (ef31aa6 and d6d9614: the redesign, or any later):

    python tests/golden/sweep/before_redesign.py translate /tmp/old /tmp/new && python -m audit report /tmp/new
    cmp /tmp/old/report/verdict.json /tmp/new/report/verdict.json

`golden /tmp/old` rewrites before_redesign.json beside this file: the states, and what the old program made of them.
"""

import json
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds

HERE = Path(__file__).parent
LETTER = {True: "C", False: "W", None: "U"}  # correct, wrong, unparsed; this run has no errors and nothing truncated


def translate(old: Path, new: Path) -> None:
    """Columns renamed; those that came later are null (router_calls, a count that no verdict reads, is 0)."""
    from audit.sweep.audit import SCHEMA

    rows = ds.dataset(old / "shards", format="ipc").to_table()
    rows = rows.rename_columns(["prompt" if name == "worker_prompt" else name for name in rows.column_names])
    columns = []
    for field in SCHEMA.columns:
        if field.name in rows.column_names:
            columns.append(rows[field.name].cast(field.type))
        else:
            value = 0 if field.name == "router_calls" else None
            columns.append(pa.array([value] * rows.num_rows, field.type))
    (new / "shards").mkdir(parents=True)
    with pa.ipc.new_file(new / "shards" / "rows.arrow", SCHEMA.columns) as file:
        file.write_table(pa.Table.from_arrays(columns, schema=SCHEMA.columns), max_chunksize=1024)
    manifest = json.loads((old / "manifest.json").read_text())
    analysis = {"seed": 42, "thresholds": manifest["config"]["verdict"], "control_benchmark": None}
    manifest |= {"audit": "sweep", "schema_version": SCHEMA.version, "analysis": analysis}
    (new / "manifest.json").write_text(json.dumps(manifest))


def golden(old: Path) -> dict:
    """States by setting ("arm routers replicate": one letter a question, in order of id), and the old verdict."""
    columns = ["question_id", "arm", "routers", "replicate", "correct", "error", "finish_reason"]
    rows = ds.dataset(old / "shards", format="ipc").to_table(columns=columns).sort_by("question_id").to_pylist()
    states: dict[str, str] = {}
    for row in rows:
        assert row["error"] is None and row["finish_reason"] == "stop"
        name = f"{row['arm']} {row['routers']} {row['replicate']}"
        states[name] = states.get(name, "") + LETTER[row["correct"]]
    verdict = json.loads((old / "report" / "verdict.json").read_text())
    cell = verdict["cells"][0]
    kept = ("verdict", "states", "sample_sizes", "slope", "noise_floor", "score", "chance", "draws", "reading")
    return {
        "states": dict(sorted(states.items())),
        "cell": {key: cell[key] for key in kept},
        "gates": {gate["name"]: gate["number"] for gate in cell["gates"]},
        "contrasts": [[c["name"], c["routers"], c["n"], c["estimate"]] for c in cell["contrasts"]],
        "paper": verdict["paper"],
    }


if __name__ == "__main__":
    what, *folders = sys.argv[1:]
    if what == "translate":
        translate(*map(Path, folders))
    else:
        (HERE / "before_redesign.json").write_text(json.dumps(golden(Path(folders[0]))) + "\n")
