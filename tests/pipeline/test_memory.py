"""The memory audit as a user runs it: a real Ray, the scripted engine, shards on disk."""

import json
import random
import re
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest
from audit_here import Finished, audit_here
from commands_here import gate, import_logs, publish
from faulty_server import completion
from pipeline_helpers import by_key, rebuilt_alike, rows_of, write_model
from servers_here import Quiet, http_here

KEY = ("model", "benchmark", "question_id", "arm", "ordering", "replicate")
# A model that recites: what is published is likelier, word by word, than the same in another order.
READER = "scripted: {accuracy: {score: 0.8}, likelihood: {order/0: 0.4, published/0: 0.4}}"


def questions(prefix: str, n: int, first: int = 0) -> str:
    rows = [
        {
            "id": f"{prefix}/{k}",
            "question": f"What does {prefix} number {k} of the {n} hold in its left hand?",
            "choices": [f"{w} {k}" for w in ("stone", "apple", "<b>wheel</b>", "leaf")],
            "answer": k % 4,
        }
        for k in range(first, first + n)
    ]
    return "".join(json.dumps(row) + "\n" for row in rows)


def memory(run_dir: Path, conf: Path, *overrides: str) -> Finished:
    """The command, in this process; `conf` holds the models and the held-out set."""
    words = [f"hydra.searchpath=[file://{conf}]", "model=[reader,peer]", "references=[peer]"]
    files_ = ["benchmark=mcq_file", "benchmark.name=exam", f"benchmark.path={conf}/exam.jsonl"]
    design = ["benchmark.id_column=id", "orders=3", "option_orders=2", "progress=false"]
    return audit_here("memory", run_dir, *words, *files_, *design, *overrides)


@pytest.fixture(scope="module")
def conf(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("conf")
    write_model(folder, "reader", READER)
    write_model(folder, "peer", "scripted: {accuracy: {score: 0.7}}")
    (folder / "exam.jsonl").write_text(questions("exam", 60))
    return folder


@pytest.fixture(scope="module")
def finished(driver, conf, tmp_path_factory) -> Finished:
    """A finished run of one judged model and one reference. To be read only."""
    done = memory(
        tmp_path_factory.mktemp("memory") / "run", conf, "gate=true", "store.rows_per_shard=60"
    )
    assert done.code == 4, done.out
    return done


def test_every_text_is_read_once(finished):
    rows = by_key(finished.run_dir, *KEY)
    assert len(rows) == 2 * 60 * (
        1 + 1 + 2 + 4
    )  # score, published, two orders of options, four orders of neighbours
    for (_, _, _, arm, level, _), row in rows.items():
        assert (row["error"] is None) == row["asked"]
        if arm == "score":
            assert row["reading"] == "letter" and row["correct"] is not None and not row["pieces"]
        elif row["asked"]:
            assert row["reading"] == "text" and row["correct"] is None and row["response"] == ""
            assert "".join(row["pieces"]) == row["prompt"] and len(row["option_logprobs"]) == len(
                row["pieces"]
            )
            assert (len(row["token_logprobs"]) > 0) == (arm == "published") and row[
                "request_sha256"
            ]
        if arm == "order" and level == 0:
            assert row["prompt"].endswith(
                row["question"]
                + "".join(f"\n{a}. {o}" for a, o in zip("ABCD", row["options"], strict=True))
            )
    digests = {
        k: row["request_sha256"]
        for k, row in rows.items()
        if k[3] in ("published", "options") and row["asked"]
    }
    per_item = {}
    for key, sha in digests.items():
        per_item.setdefault((key[0], key[2]), []).append(sha)
    assert all(len(set(shas)) == len(shas) for shas in per_item.values())


def test_an_order_that_is_recited_stands_out_and_without_held_out_items_its_cause_is_open(finished):
    verdict = json.loads((finished.run_dir / "report" / "verdict.json").read_text())
    schema = json.loads(
        (files("audit.judging") / "verdict.schema.json").read_text(encoding="utf-8")
    )
    jsonschema.validate(verdict, schema)
    (cell,) = verdict["cells"]
    assert (cell["model"], cell["references"]) == ("reader", ["peer"])
    assert cell["verdict"] == "memory_cause_unknown"
    indicators = {indicator["name"]: indicator for indicator in cell["indicators"]}
    assert indicators["order"]["unguarded_adjusted"] < 0.01 and indicators["order"]["estimate"] > 0
    assert indicators["order"]["doubt"]["code"] == "no_bracket"
    assert (
        indicators["gap"]["pvalue"] is None and indicators["gap"]["why"]["code"] == "needs_held_out"
    )
    assert cell["evidence"]["order"]["references"][0]["t_pvalue"] > 0.05
    page = (finished.run_dir / "report" / "report.html").read_text()
    assert (
        page.count("<li data-marks=") == 60 and "<b>wheel" not in page and "&lt;b&gt;wheel" in page
    )
    assert "MEMORY CAUSE UNKNOWN" in finished.out and gate([str(finished.run_dir)]) == 4


@pytest.mark.long  # tests/unit/memory tests what is computed
def test_a_published_order_that_is_recorded_needs_no_references(driver, conf, tmp_path):
    """`audit publish`, then a run that names its record: who recites that order is found alone, who
    does not is not."""
    out = tmp_path / "public"
    assert (
        publish(
            [
                f"{conf}/exam.jsonl",
                "id_column=id",
                "answer_as=index",
                "--seed",
                "1",
                "--out",
                str(out),
            ]
        )
        == 0
    )
    named = [f"benchmark.path={out}/exam.jsonl", "benchmark.answer_as=index", "references=[]"]
    done = memory(tmp_path / "run", conf, *named, f"published_order={out}/exam.order.json")
    assert done.code == 0, done.out
    cells = {
        cell["model"]: cell
        for cell in json.loads((tmp_path / "run/report/verdict.json").read_text())["cells"]
    }
    assert (
        cells["reader"]["references"] == [] and cells["reader"]["verdict"] == "memory_of_text_seen"
    )
    assert cells["peer"]["verdict"] != "memory_of_text_seen"
    order = {
        name: {indicator["name"]: indicator for indicator in cell["indicators"]}["order"]
        for name, cell in cells.items()
    }
    assert order["reader"]["adjusted"] < 0.01 < 0.05 < order["peer"]["pvalue"]
    gates = {gate["name"]: gate["status"] for gate in cells["reader"]["gates"]}
    assert gates["order_exchangeable"] == "not_applicable"
    rows = [
        row
        for row in rows_of(tmp_path / "run")
        if row["model"] == "reader" and row["arm"] == "score"
    ]
    published = [
        json.loads(line)["choices"] for line in (out / "exam.jsonl").read_text().splitlines()
    ]
    assert sorted(row["options"] for row in rows) == sorted(published)
    assert sorted(published) != sorted(
        json.loads(line)["choices"] for line in questions("exam", 60).splitlines()
    )


def test_a_rebuilt_report_judges_as_the_run_did_and_needs_the_questions(finished, tmp_path):
    rebuilt_alike(finished.run_dir, tmp_path / "run", "questions.arrow")


class Learnt(Quiet):
    """Knows the exam's answers (below 60) by heart, and half of those to the held-out items: the
    number tells."""

    def do_GET(self) -> None:
        self.reply_json({"object": "list", "data": [{"id": "m"}]})

    def do_POST(self) -> None:
        question = json.loads(self.request_body())["messages"][-1]["content"]
        number = int(re.findall(r"What does exam number (\d+)", question)[-1])
        right = number < 60 or number // 4 % 2
        self.reply_json(completion("ABCD"[(number + (0 if right else 1)) % 4]))


@pytest.mark.long  # test_canary.py runs an endpoint, tests/unit/memory takes references from imports
def test_an_endpoint_against_references_that_were_imported(driver, conf, tmp_path, monkeypatch):
    """The endpoint scores 60 of 60, and 32 of 60 (numbers 60-63, 68-71, ... 116-119); references
    the same on both."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-local")
    lines = {"exam": questions("exam", 60), "fresh": questions("exam", 60, 60)}
    texts = {name: [json.loads(line) for line in text.splitlines()] for name, text in lines.items()}
    (tmp_path / "fresh.jsonl").write_text(lines["fresh"])
    log = tmp_path / "log.jsonl"
    log.write_text(
        "".join(
            json.dumps(
                {
                    "model": f"{who}_{k}",
                    "benchmark": name,
                    "text": row["question"].upper(),
                    "options": row["choices"][::-1],
                    "correct": f"{5 + (i * 7 + 3 * k) % 4 - 2}/10",
                }
            )
            + "\n"
            for k, who in enumerate(("alpha", "beta", "gamma", "delta", "epsilon"))
            for name, rows in texts.items()
            for i, row in enumerate(rows)
        )
    )
    imported = tmp_path / "imported"
    words = [
        str(log),
        "--benchmark",
        "exam",
        "--held-out",
        "fresh",
        "--judge",
        "alpha_0",
        "-o",
        str(imported),
    ]
    assert import_logs(words) == 0

    with http_here(Learnt) as address:
        done = memory(
            tmp_path / "run",
            conf,
            "model=openai_compatible",
            f"model.openai_compatible.endpoints=[{{url: '{address}/v1', model: m}}]",
            f"references=[{imported},alpha_0@{imported}]",
            "control_benchmark=mcq_file",
            "control_benchmark.name=fresh",
            f"control_benchmark.path={tmp_path}/fresh.jsonl",
            "control_benchmark.id_column=id",
            "control_benchmark.date=2024-05",
            "model.openai_compatible.released=2024-06",
        )
    assert done.code == 0, done.out
    assert {row["arm"] for row in rows_of(done.run_dir)} == {"score"} and len(
        rows_of(done.run_dir)
    ) == 120
    (cell,) = json.loads((done.run_dir / "report" / "verdict.json").read_text())["cells"]
    gap = next(indicator for indicator in cell["indicators"] if indicator["name"] == "gap")
    gap_size = 1 - 32 / 60
    assert len(cell["references"]) == 5
    assert (
        gap["estimate"] == pytest.approx(100 * gap_size) and cell["verdict"] == "gap_to_fresh_items"
    )
    assert [
        indicator["name"] for indicator in cell["indicators"] if indicator["pvalue"] is not None
    ] == ["gap"]
    assert any("not under our control" in doubt for doubt in cell["cannot_exclude"])


class Panel(Quiet):
    """Serves five models that know 55 % of all items; oak-7b knows the exam (below 100) by heart."""

    models = ("oak-7b", "elm-7b", "ash-7b", "fir-7b", "yew-7b")

    def do_GET(self) -> None:
        self.reply_json({"object": "list", "data": [{"id": name} for name in self.models]})

    def do_POST(self) -> None:
        call = json.loads(self.request_body())
        question = call["messages"][-1]["content"]
        number = int(re.findall(r"What does exam number (\d+)", question)[-1])
        drawn = random.Random(f"{call['model']}/{number}").random()
        right = drawn < 0.55 or (call["model"] == "oak-7b" and number < 100)
        letter = "ABCD"[(number + (0 if right else 1)) % 4]
        self.reply_json(completion(letter) | {"model": call["model"]})


def test_an_endpoint_and_references_of_its_server_give_the_score_without_memory(
    driver, tmp_path, monkeypatch
):
    """The words of docs/start/api_only.md. The model scores 100 of 100; without memory it would
    score about the 55 % of the references, and the interval must hold that."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-local")
    (tmp_path / "exam.jsonl").write_text(questions("exam", 100))
    (tmp_path / "unseen.jsonl").write_text(questions("exam", 100, 100))
    with http_here(Panel) as address:
        done = audit_here(
            "memory",
            tmp_path / "run",
            f"endpoint={address}/v1",
            "model_id=oak-7b",
            f"data={tmp_path}/exam.jsonl",
            f"control_data={tmp_path}/unseen.jsonl",
            "references=[elm-7b,ash-7b,fir-7b,yew-7b]",
            "control_benchmark.date=2026-05",
            "model.oak-7b.released=2025-12",
            *(f"model.{name}.released=2025-12" for name in Panel.models[1:]),
            "progress=false",
        )
    assert done.code == 0, done.out
    assert len(rows_of(done.run_dir)) == 5 * 200
    document = json.loads((done.run_dir / "report" / "verdict.json").read_text())
    (cell,) = document["cells"]
    assert cell["verdict"] == "gap_to_fresh_items", cell
    result = cell["without_memory"]["estimate"]
    without = result["without"]
    assert result["score"]["estimate"] == 1 and result["references"] == 4
    assert without["low"] < 0.55 < without["high"] < result["score"]["estimate"], without
    assert "Without memory: " in cell["without_memory"]["sentence"]
