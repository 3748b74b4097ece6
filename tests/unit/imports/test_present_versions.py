"""Logs as the present source code of other tools writes them, each with its right score.

The sources were read in these versions: OpenCompass 0.5.4, lighteval 0.13.0, lm-eval 0.4.13, Inspect 0.3.285,
BigCodeBench 0.2.5, SWE-bench 5.0.2; and as stored copies: lmms-eval, LiveCodeBench, MMLU-Pro, Qwen2.5-Math,
NeMo-Skills, tau-bench, BFCL, ZeroEval, deepeval. The tables of MLflow, W&B, terminal-bench and VLMEvalKit were
written from knowledge of their form. Nothing is copied from there.
"""

import json
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from audit.core.errors import AuditError, ConfigError, DataError
from audit.imports.detect import read_log
from audit.imports.folder import read_logs
from audit.imports.join import Joined, counts
from audit.imports.propose import propose
from audit.imports.record import Log, Wanted
from audit.imports.totals import NoOutcomesError

N = 20
RIGHT = [k % 5 not in (1, 3) for k in range(N)]  # 12 of 20
KEYS = ["ABCD"[(k * 7 + k // 3) % 4] for k in range(N)]
OTHERS = ["ABCD"["BCDA".index(key)] for key in KEYS]
ANSWERS = [KEYS[k] if RIGHT[k] else OTHERS[k] for k in range(N)]


def write(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return path


def lines(path: Path, rows: Iterable[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def read(*paths: Path, **wanted: Any) -> list[tuple[str, str, int, float, int]]:
    """(model, benchmark, items, accuracy, unparsed) of each cell."""
    joined = Joined()
    for path in paths:
        for _, log in read_logs(path, Wanted(**wanted)):
            if isinstance(log, Log):
                joined.add(path.name, log.outcomes)
    return [
        (count.model, count.benchmark, count.items, round(count.accuracy, 4), count.unparsed)
        for count in counts(joined)
    ]


def columns(words: str) -> dict[str, str]:
    """The columns of a proposal, as --map reads them."""
    proposed = words.removeprefix("--map ").partition(" --model")[0].strip("'")
    return dict(pair.split("=", 1) for pair in proposed.split(","))


# --- OpenCompass: a language model judges; A is right, B is wrong, the keys are letters too


def judged(verdict: Callable[[int], str]) -> dict[str, dict[str, Any]]:
    return {
        str(k): {"origin_prompt": f"Judge {k}", "prediction": verdict(k), "gold": "ABCD"[k % 4]}
        for k in range(N)
    }


def judged_results(replies: dict[str, dict[str, Any]], **totals: float) -> dict[str, Any]:
    details = []
    for k, reply in replies.items():
        details.append({"example_abbr": f"gpqa_{k}", **{name: [reply[name]] for name in reply}})
    return {**totals, "details": details}


def test_replies_of_a_judge_are_verdicts_and_never_the_models_answers(tmp_path: Path) -> None:
    """Compared with the keys, the judge's letters would be right in 5 of 20 items."""
    replies = judged(lambda k: "A" if RIGHT[k] else "B")
    beside = write(tmp_path / "results/qwen/gpqa_replica0.json", replies)
    totals = {"accuracy": 60.0, "accuracy_given_attempted": 60.0}
    path = write(tmp_path / "results/qwen/gpqa.json", judged_results(replies, **totals))
    write(tmp_path / "predictions/qwen/gpqa.json", judged(lambda k: "C"))
    assert read(path) == read(tmp_path) == [("qwen", "gpqa", N, 0.6, 0)]
    moved = write(tmp_path / "gpqa_llm_judge_replica0.json", replies)
    for other in (beside, moved):
        with pytest.raises(NoOutcomesError):
            read_log(other, Wanted(model="m"))


def test_a_reply_of_a_judge_without_a_verdict_is_unparsed(tmp_path: Path) -> None:
    """2 of 20 without a verdict: item 0 was right, item 1 wrong; so 11 of 18 are right."""
    replies = judged(lambda k: "?" if k < 2 else "A" if RIGHT[k] else "B")
    totals = {"accuracy": 55.0, "accuracy_given_attempted": 100 * 11 / 18}
    path = write(tmp_path / "results/qwen/gpqa.json", judged_results(replies, **totals))
    assert read(path) == [("qwen", "gpqa", N, round(11 / 18, 4), 2)]


def test_predictions_on_two_subjects_are_one_benchmark_if_it_is_named(tmp_path: Path) -> None:
    """Both files number their items from 0."""
    paths = []
    for subject in ("law", "physics"):
        replies = {}
        for k in range(N):
            prompt = f"Question {k} on {subject}. A. w B. x C. y D. z"
            replies[str(k)] = {"origin_prompt": prompt, "prediction": ANSWERS[k], "gold": KEYS[k]}
        paths.append(write(tmp_path / f"predictions/qwen/mmlu_{subject}.json", replies))
    assert read(*paths, benchmark="mmlu") == [("qwen", "mmlu", 2 * N, 0.6, 0)]


@pytest.mark.parametrize(("common", "refused"), [(0, False), (1, False), (2, True), (9, True)])
def test_the_items_of_two_tasks_are_counted_and_not_their_epochs(
    common: int, refused: bool, tmp_path: Path
) -> None:
    """Two tasks of 100 items, each answered ten times. At most 1 % may be common."""
    joined, logs = Joined(), []
    for task, first in (("law", 0), ("physics", 100 - common)):
        replies = {}
        for k in range(first, first + 100):
            replies[str(k)] = {"origin_prompt": f"Q{k}", "prediction": "A", "gold": "A"}
        path = write(tmp_path / f"predictions/qwen/{task}.json", replies)
        outcomes = list(read_log(path, Wanted(benchmark="mmlu")).outcomes)
        logs.append([replace(x, epoch=epoch) for x in outcomes for epoch in range(10)])
    joined.add("law", logs[0])
    if refused:
        with pytest.raises(DataError, match=f"^{common} items of physics"):
            joined.add("physics", logs[1])
    else:
        joined.add("physics", logs[1])


def test_a_table_of_counts_may_have_errors(tmp_path: Path) -> None:
    """Item k has k of 10 right; the last two have an error, and counts as well."""
    rows = ["model,item,correct,of,error"]
    rows += [f"m,i{k},{k},10,{'timeout' if k >= 8 else ''}" for k in range(10)]
    path = tmp_path / "counts.csv"
    path.write_text("\n".join(rows) + "\n")
    (cell,) = read(path, model="m", benchmark="b")
    assert cell[2] == 10 and cell[4] in (0, 2)


def test_letters_that_are_no_verdicts_are_refused(tmp_path: Path) -> None:
    replies = judged(lambda k: "A" if RIGHT[k] else "B")
    path = tmp_path / "results/qwen/gpqa.json"
    for totals in ({"accuracy": 60.0}, {"accuracy": 60.0, "accuracy_given_attempted": 40.0}):
        with pytest.raises(DataError):
            read(write(path, judged_results(replies, **totals)))


def test_predictions_in_another_tools_details_are_a_table(tmp_path: Path) -> None:
    rows = [{"item": k, "prediction": ANSWERS[k], "gold": KEYS[k]} for k in range(N)]
    path = write(tmp_path / "a.json", {"model": "m", "details": rows})
    assert read(path, columns={"answer": "prediction"}) == [("m", "a", N, 0.6, 0)]


# --- tables


def test_a_list_of_marks_is_as_many_trials(tmp_path: Path) -> None:
    """LiveCodeBench, Qwen2.5-Math: 12 items 3 of 4, 8 items 1 of 4: (12 x .75 + 8 x .25) / 20."""
    rows = [{"id": k, "score": [RIGHT[k], RIGHT[k], True, False]} for k in range(N)]
    path = lines(tmp_path / "a.jsonl", rows)
    mapped = {"item": "id", "correct": "score"}
    assert read(path, model="m", columns=mapped) == [("m", "a", N, 0.55, 0)]
    rows[3]["score"] = [True, "zork"]
    with pytest.raises(DataError, match="zork"):
        read(lines(path, rows), model="m", columns=mapped)


def test_a_table_of_columns_and_data_is_read(tmp_path: Path) -> None:
    """MLflow's eval_results_table.json, W&B's table.json, and pandas with orient=split."""
    rows = [[k, ANSWERS[k], KEYS[k], int(RIGHT[k])] for k in range(N)]
    table = {"columns": ["id", "out", "key", "match/v1/score"], "data": rows}
    path = write(tmp_path / "t.json", table)
    for mapped in (
        {"item": "id", "correct": "match/v1/score"},
        {"item": "id", "answer": "out", "gold": "key"},
    ):
        assert read(path, model="m", columns=mapped) == [("m", "t", N, 0.6, 0)]
    with pytest.raises(DataError, match="row 20"):
        read_log(write(path, table | {"data": [*rows[:-1], [1]]}), Wanted(model="m"))


def test_the_named_columns_choose_one_of_several_lists(tmp_path: Path) -> None:
    """deepeval: test cases, and the scores of each metric."""
    cases = [{"name": f"t{k}", "input": f"Q{k}", "success": RIGHT[k]} for k in range(N)]
    path = write(tmp_path / "run.json", {"testCases": cases, "metricsScores": [{"metric": "x"}]})
    with pytest.raises(DataError) as error:
        read_log(path, Wanted(model="m"))
    mapped = columns(str(error.value).partition("Example: ")[2])
    assert read(path, model="m", columns=mapped) == [("m", "run", N, 0.6, 0)]
    with pytest.raises(DataError):
        read_log(path, Wanted(model="m", columns={"item": "zork"}))


def test_a_workbook_and_a_file_of_wrong_answers_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.xlsx", "w") as file:
        file.writestr("xl/workbook.xml", "<x/>")
    with pytest.raises(DataError, match="csv"):
        read_log(tmp_path / "a.xlsx", Wanted())
    totals = {"accuracy": 0.6, "correct_count": 12, "total_count": N}
    wrong = [{"id": k, "model_name": "m", "valid": False} for k in range(N) if not RIGHT[k]]
    with pytest.raises(NoOutcomesError):
        read_log(lines(tmp_path / "BFCL_v4_simple_score.json", [totals, *wrong]), Wanted())


def test_an_error_that_says_why_an_answer_is_wrong_is_no_missing_answer(tmp_path: Path) -> None:
    """8 of 20 answers fail a test, and the column error says how: 12 of 20, or 12 of 12."""
    error = "AssertionError: 3 != 4"
    rows = [
        {"item": k, "correct": RIGHT[k], "error": None if RIGHT[k] else error} for k in range(N)
    ]
    path = lines(tmp_path / "a.jsonl", rows)
    with pytest.raises(ConfigError):
        read(path, model="m")
    assert read(path, model="m", columns={"error": "0"}) == [("m", "a", N, 0.6, 0)]
    assert read(path, model="m", columns={"error": "error"}) == [("m", "a", N, 1.0, 8)]
    rows[3]["error"] = ""  # one of the 8 is wrong without an error: the others are failures
    assert read(lines(path, rows), model="m") == [("m", "a", N, round(12 / 13, 4), 7)]


# --- what is proposed for each tool's rows, and what it reads

MARK: dict[str, Callable[[int], dict[str, Any]]] = {
    "MMLU-Pro": lambda k: {
        "question_id": k,
        "options": [f"{k}", f"{k + 1}", f"{k + 2}", f"{k + 3}"],
        "answer": KEYS[k],
        "answer_index": "ABCD".index(KEYS[k]),
        "pred": ANSWERS[k],
    },
    "lmms-eval": lambda k: {
        "doc_id": k,
        "target": KEYS[k],
        "mmmu_acc": {"id": f"v{k % 2}", "answer": KEYS[k], "parsed_pred": ANSWERS[k]},
    },
    "lmms-eval, MME": lambda k: {
        "doc_id": k,
        "target": "Yes",
        "mme_score": {"question_id": f"{k // 2}.png", "score": float(RIGHT[k])},
    },
    "LiveCodeBench": lambda k: {"question_id": k, "difficulty": "easy", "pass@1": float(RIGHT[k])},
    "NeMo-Skills": lambda k: {
        "id": k,
        "expected_answer": str(k),
        "predicted_answer": None if k == 0 else str(k + 50 * (not RIGHT[k])),
        "symbolic_correct": RIGHT[k],
    },
    "Qwen2.5-Math": lambda k: {"idx": k, "answer": "7", "pred": ["7"], "score": [RIGHT[k]]},
    "terminal-bench": lambda k: {"task_id": f"t{k}", "is_resolved": RIGHT[k]},
    "tau-bench": lambda k: {"task_id": k // 2, "reward": float(RIGHT[k]), "trial": k % 2},
    "ZeroEval": lambda k: {"id": k, "generator": "m", "solved": RIGHT[k]},
    "VLMEvalKit": lambda k: {"index": k, "answer": KEYS[k], "hit": int(RIGHT[k])},
    "MLflow": lambda k: {"inputs": f"Q{k}", "exact_match/v1/score": int(RIGHT[k])},
}


@pytest.mark.parametrize("tool", MARK)
def test_a_proposal_reads_the_right_score(tool: str, tmp_path: Path) -> None:
    rows = [MARK[tool](k) for k in range(N)]
    path = lines(tmp_path / "log.jsonl", rows)
    with pytest.raises(AuditError) as error:
        read(path, model="m")
    mapped = columns(str(error.value).partition("such as ")[2])
    ((_, _, _, accuracy, unparsed),) = read(path, model="m", columns=mapped)
    assert (accuracy, unparsed) == (0.6, 0)


def test_a_first_row_without_an_answer_changes_no_proposal(tmp_path: Path) -> None:
    """Item 0, which was right, is unparsed: 11 of 19."""
    rows = [MARK["MMLU-Pro"](k) for k in range(N)]
    rows[0]["pred"] = None
    path = lines(tmp_path / "log.jsonl", rows)
    with pytest.raises(AuditError) as error:
        read(path, model="m")
    mapped = columns(str(error.value).partition("such as ")[2])
    assert read(path, model="m", columns=mapped) == [("m", "log", N, round(11 / 19, 4), 1)]


def test_an_answer_is_the_key_only_beside_a_prediction() -> None:
    assert "answer=pred,gold=answer" in propose({"id": 1, "answer": "B", "pred": "A"}, True)
    assert propose({"id": 1, "answer": "B", "gold": "A"}, True) == "--map item=id"


def test_a_repeat_in_a_table_is_told_how_trials_are_named(tmp_path: Path) -> None:
    rows = [MARK["tau-bench"](k) for k in range(N)]
    path = lines(tmp_path / "log.jsonl", rows)
    with pytest.raises(DataError, match="epoch"):
        read(path, model="m", columns={"item": "task_id", "correct": "reward"})


# --- code


def test_statuses_of_bigcodebench_are_read(tmp_path: Path) -> None:
    results = {}
    for k in range(N):
        status = "pass" if RIGHT[k] else ("fail", "timeout")[k % 2]
        task = f"BigCodeBench/{k}"
        results[task] = [{"task_id": task, "solution": "x", "status": status, "details": {}}]
    end = "vllm-0.0-1-sanitized_calibrated_eval_results.json"
    for name, model, split in (
        ("gpt-4o--bigcodebench-instruct", "gpt-4o", "-instruct"),
        ("gpt-4o--bigcodebench-hard-instruct", "gpt-4o", "-instruct"),
        ("org--m--main--bigcodebench-complete", "org/m", "-complete"),
        ("org--m--main--bigcodebench", "org/m", ""),
    ):
        path = write(tmp_path / f"{name}--{end}", {"date": "2026-01-01 10:10", "eval": results})
        assert read(path) == [(model, f"bigcodebench{split}", N, 0.6, 0)]


def test_a_report_of_swe_bench_is_read(tmp_path: Path) -> None:
    """Of 20: 12 resolved, 5 not; one empty patch, one error, one failure of the infrastructure."""
    ids = [f"django__django-{k}" for k in range(N)]
    report = {
        "total_instances": 30,
        "resolved_instances": 12,
        "resolved_ids": ids[:12],
        "unresolved_ids": ids[12:18],
        "empty_patch_ids": ids[18:19],
        "error_ids": ids[19:],
        "infra_failure_ids": ids[17:18],
        "incomplete_ids": ["x"] * 10,
    }
    path = write(tmp_path / "org__gpt-4.1.run1.json", report)
    assert read(path) == [("org/gpt-4.1", "swe-bench", N, round(12 / 17, 4), 3)]
    with pytest.raises(DataError):
        read(write(path, report | {"resolved_instances": 13}))


# --- tasks of a group as one benchmark


def lm_eval(path: Path, subject: str, right: Callable[[int], bool], shared: int = 0) -> Path:
    rows = []
    for k in range(N):
        text = f"{'' if k < shared else subject} Q{k}"
        doc = {"question": text, "choices": ["a", "b", "c", "d"]}
        row = {"doc_id": k, "doc": doc, "target": "1", "filter": "none", "metrics": ["acc"]}
        rows.append(row | {"doc_hash": text, "acc": float(right(k))})
    return lines(path / f"samples_mmlu_{subject}_2026-01-01T10-10-10.123456.jsonl", rows)


def test_subjects_are_one_benchmark_if_they_are_given_its_name(tmp_path: Path) -> None:
    paths = [
        lm_eval(tmp_path, "law", lambda k: RIGHT[k]),
        lm_eval(tmp_path, "art", lambda k: True),
    ]
    assert read(*paths, model="m", benchmark="mmlu") == [("m", "mmlu", 2 * N, 0.8, 0)]
    time, rows = "2026-01-01T10-10-10.123456", []
    for subject in ("law", "art"):
        rows = []
        for k in range(N):
            doc = {"query": f"{subject} Q{k}", "choices": ["a", "b"], "gold_index": [0]}
            doc |= {"id": str(k), "task_name": f"mmlu:{subject}"}
            right = float(RIGHT[k] or subject == "art")
            rows.append({"doc": doc, "metric": {"acc": right}, "model_response": {"text": ["x"]}})
        path = tmp_path / f"details/m/{time}/details_mmlu:{subject}_{time}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows), path)
    paths = sorted((tmp_path / "details").rglob("*.parquet"))
    assert read(*paths, benchmark="mmlu") == [("m", "mmlu", 2 * N, 0.8, 0)]


@pytest.mark.parametrize("shared", [N, 5])
def test_tasks_with_the_same_items_are_no_parts_of_one_benchmark(
    shared: int, tmp_path: Path
) -> None:
    plain = lm_eval(tmp_path, "plain", lambda k: True, shared=N)
    cot = lm_eval(tmp_path, "cot", lambda k: False, shared=shared)
    for paths in ((plain, cot), (plain, plain)):
        with pytest.raises(DataError):
            read(*paths, model="m", benchmark="mmlu")


# --- Inspect


@pytest.mark.parametrize("chunked", [False, True])
def test_samples_of_inspect_may_be_in_chunks(chunked: bool, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.eval", "w") as file:
        header = {"version": 3, "status": "success", "eval": {"model": "m", "task": "t"}}
        file.writestr("header.json", json.dumps(header))
        for k in range(N):
            sample = {"id": f"repo/{k}", "epoch": 1, "input": f"Q{k}", "target": "x"}
            sample["scores"] = {"match": {"value": "C" if RIGHT[k] else "I", "answer": "y"}}
            place = f"samples/repo/{k}_epoch_1"
            file.writestr(f"{place}{'/sample' if chunked else ''}.json", json.dumps(sample))
            if chunked:
                file.writestr(f"{place}/events/0.json", "[]")
                file.writestr(f"{place}/skeleton.json", "{}")
    assert read(tmp_path / "a.eval") == [("m", "t", N, 0.6, 0)]
