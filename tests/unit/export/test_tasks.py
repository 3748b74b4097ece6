"""Their harness asks, we judge: items go out as tasks, are asked by the real harness, and its logs
come home.

The loops need an interpreter that has the harness (AUDIT_TEST_LM_EVAL, AUDIT_TEST_INSPECT): `make
harnesses` installs both. lm-eval's `dummy` model and Inspect's mockllm answer."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from commands_here import export, import_logs

from audit.benchmarks.rows import text_key
from audit.imports.detect import read_log
from audit.imports.join import Joined, counts
from audit.imports.record import Wanted

HOSTILE = "{{ 7 * 7 }} {% raw %} </script> 'q' \u202e What barks?"
FRESH = [
    {
        "id": f"fresh/{k}",
        "question": f"{HOSTILE} {k}",
        "choices": ["dog", "cat", "cow", f"ass {k}"],
        "answer": k % 4,
    }
    for k in range(6)
]
MATHS = [
    {"question": f"What is {k} + 2?", "answer": f"{k} + 2 = {k + 2}\n#### {k + 2}"}
    for k in range(4)
]


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten items of the embedded exam with their variants, and a numeric benchmark, beside held-out
    items."""
    folder = tmp_path_factory.mktemp("tasks")
    for name, rows in (("fresh", FRESH), ("maths", MATHS)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    fresh = [
        "control_benchmark=mcq_file",
        f"control_benchmark.path={folder}/fresh.jsonl",
        "control_benchmark.name=new",
    ]
    fresh.append("control_benchmark.id_column=id")
    assert export(["tasks", "n=10", *fresh, "--out", str(folder / "out")]) == 0
    assert export(["tasks", "n=10", "variants=elementary", "--out", str(folder / "reworded")]) == 0
    maths = ["benchmark=gsm8k", f"benchmark.path={folder}/maths.jsonl", "benchmark.hub=null"]
    assert export(["tasks", *maths, "--out", str(folder / "maths")]) == 0
    return folder


def rows(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_items_variants_and_held_out_items_go_out(tasks: Path) -> None:
    items, held_out = (
        rows(tasks / "out/audit_elementary.jsonl"),
        rows(tasks / "out/audit_new.jsonl"),
    )
    assert len(items) == 10 and len(held_out) == 6
    assert {row["question"] for row in held_out} == {row["question"] for row in FRESH}
    assert all(row["target"] == "ABCD"[row["gold"]] for row in items)  # type: ignore[index]
    reworded = rows(tasks / "reworded/audit_elementary_variant_1.jsonl")
    original = {
        row["audit_id"]: row["question"] for row in rows(tasks / "reworded/audit_elementary.jsonl")
    }
    assert (
        all(original[row["audit_id"]] != row["question"] for row in reworded) and len(reworded) > 5
    )
    assert rows(tasks / "maths/audit_gsm8k.jsonl")[1]["target"] == "3"
    compile((tasks / "out/audit_tasks.py").read_text(), "audit_tasks.py", "exec")


def log(path: Path, items: list[dict[str, object]]) -> Path:
    """As lm-eval 0.4 writes samples."""
    samples = [
        {
            "doc_id": k,
            "doc": doc,
            "target": str(doc["gold"]),
            "filter": "none",
            "acc": float(k % 2),
            "filtered_resps": [["-1.0", "False"]] * 4,
        }
        for k, doc in enumerate(items)
    ]
    path.write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    return path


def joined(*logs: tuple[Path, Wanted]) -> Joined:
    table = Joined()
    for path, wanted in logs:
        table.add(path.name, read_log(path, wanted).outcomes)
    return table


def test_our_id_brings_an_item_home(tasks: Path, tmp_path: Path) -> None:
    items = rows(tasks / "out/audit_elementary.jsonl")
    first = log(tmp_path / "samples_a_2026-11-25T00-00-00.0.jsonl", items)
    other = log(tmp_path / "samples_b_2026-11-25T00-00-00.0.jsonl", items[::-1])
    ids = {row["audit_id"] for row in items}
    table = joined((first, Wanted("m", "exam")), (other, Wanted("n", "exam")))
    assert set(table.items["exam"]) == ids and [c.lacking for c in counts(table)] == [0, 0]
    by_text = joined((first, Wanted("m", "exam", key="text")))
    assert set(by_text.items["exam"]) == {
        text_key(row["question"], row["choices"]) for row in items
    }  # type: ignore[arg-type]


def test_an_own_run_joins_by_our_id(tasks: Path, tmp_path: Path) -> None:
    items = rows(tasks / "out/audit_elementary.jsonl")
    table = tmp_path / "own.csv"
    table.write_text(
        "model,item,correct\n" + "".join(f"own,{row['audit_id']},1\n" for row in items)
    )
    assert import_logs([str(table), "--benchmark", "exam", "-o", str(tmp_path / "run")]) == 0
    path = log(tmp_path / "samples_a_2026-11-25T00-00-00.0.jsonl", items[:7])
    joint = joined(
        (tmp_path / "run", Wanted(key="audit_id")), (path, Wanted("m", "exam", "audit_id"))
    )
    assert {c.model: c.lacking for c in counts(joint)} == {"own": 0, "m": 3}


# --- the loops


def interpreter(name: str, package: str) -> str:
    python = os.environ.get(name, "")
    try:
        subprocess.run([python, "-c", f"import {package}"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip(f"{name} names no interpreter that has {package}: make harnesses")
    return python


def call(python: str, words: list[str], folder: Path) -> None:
    env = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / ".hf"), "PYTHONPATH": ""}
    done = subprocess.run(
        [python, *words],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_the_loop_with_lm_eval(tasks: Path, tmp_path: Path) -> None:
    python = interpreter("AUDIT_TEST_LM_EVAL", "lm_eval")
    run = [
        "-m",
        "lm_eval",
        "--model",
        "dummy",
        "--include_path",
        ".",
        "--log_samples",
        "--output_path",
        str(tmp_path),
    ]
    call(python, [*run, "--tasks", "audit_elementary,audit_new"], tasks / "out")
    call(python, [*run, "--tasks", "audit_gsm8k"], tasks / "maths")
    logs = {
        path.name.split("_2026")[0].split("_20")[0]: path
        for path in tmp_path.rglob("samples_*.jsonl")
    }
    assert set(logs) == {"samples_audit_elementary", "samples_audit_new", "samples_audit_gsm8k"}
    words = [
        f"mock={logs['samples_audit_elementary']}",
        "--held-out",
        f"mock={logs['samples_audit_new']}",
    ]
    assert import_logs([*words, "-o", str(tmp_path / "run")]) == 0
    for name, stem in (("out", "audit_elementary"), ("out", "audit_new"), ("maths", "audit_gsm8k")):
        items = rows(tasks / name / f"{stem}.jsonl")
        samples = rows(logs[f"samples_{stem}"])
        table = joined((logs[f"samples_{stem}"], Wanted("mock", "b")))
        assert set(table.items["b"]) == {row["audit_id"] for row in items}
        assert {value.text for value in table.items["b"].values()} == {
            row["question"] for row in items
        }
        (count,) = counts(table)
        if stem == "audit_gsm8k":  # the mock replies "lol": no number in it
            assert count.unparsed == len(items)
        else:
            assert count.accuracy == pytest.approx(
                sum(sample["acc"] for sample in samples) / len(items)
            )  # type: ignore[misc]


MOCK = """
import sys
from inspect_ai import eval
from inspect_ai.model import ModelOutput, ModelUsage, get_model
said = iter(["ANSWER: A", "hm", *["ANSWER: A"] * 100]) if sys.argv[2] == "letters" else iter(["ANSWER: 3"] * 100)
def reply(*_):
    output = ModelOutput.from_content("mockllm", next(said))
    output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    return output
logs = eval("audit_tasks.py", model=get_model("mockllm/model", custom_outputs=reply), log_dir=sys.argv[1],
            display="none", max_connections=1, max_samples=1)
assert all(log.status == "success" for log in logs), [log.error for log in logs]
"""


def test_the_loop_with_inspect(tasks: Path, tmp_path: Path) -> None:
    python = interpreter("AUDIT_TEST_INSPECT", "inspect_ai")
    call(python, ["-c", MOCK, str(tmp_path / "letters"), "letters"], tasks / "out")
    call(python, ["-c", MOCK, str(tmp_path / "numbers"), "numbers"], tasks / "maths")
    logs = {
        "new" if "new" in path.name else "exam": path
        for path in (tmp_path / "letters").glob("*.eval")
    }
    assert (
        import_logs(
            [str(logs["exam"]), "--held-out", str(logs["new"]), "-o", str(tmp_path / "run")]
        )
        == 0
    )
    unparsed = 0
    for name, stem in (("exam", "audit_elementary"), ("new", "audit_new")):
        items = {row["audit_id"]: row for row in rows(tasks / "out" / f"{stem}.jsonl")}
        table = joined((logs[name], Wanted("mock", "b")))
        assert set(table.items["b"]) == set(items)
        for key, (epoch,) in table.answers["mock", "b"].items():
            assert epoch.right in (None, int(items[key]["target"] == "A"))
            unparsed += epoch.right is None
    assert unparsed == 1  # "hm"
    (numbers,) = (tmp_path / "numbers").glob("*.eval")
    (count,) = counts(joined((numbers, Wanted("mock", "b"))))
    assert count.items == 4 and count.accuracy == 0.25  # 1 + 2 = 3 alone
