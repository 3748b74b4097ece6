"""Logs of lighteval, OpenCompass, openai/evals, EvalPlus, promptfoo; nested tables, folders, what
has no outcome.

The samples are small files of the shared data, made after public reports. Each names the file of
the repository that writes such logs."""

import json
import os
import shlex
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands_here import import_logs as main
from governed import Capsys
from hypothesis import example, given
from hypothesis import strategies as st

from audit.commands.again import pair_of
from audit.core.errors import AuditError, ConfigError, DataError
from audit.imports.detect import read_log
from audit.imports.folder import MAX_DEPTH, logs_in, read_logs
from audit.imports.join import Joined, counts
from audit.imports.propose import propose
from audit.imports.record import Imported, Log, Wanted
from audit.imports.totals import NoOutcomesError


def outcomes(path: Path, **wanted: Any) -> list[Imported]:
    return list(read_log(path, Wanted(**wanted)).outcomes)


def accuracy(path: Path, **wanted: Any) -> tuple[str, str, int, float, int]:
    """(model, benchmark, items, accuracy, unparsed) of a log of one model and benchmark."""
    joined = Joined()
    joined.add(path.name, read_log(path, Wanted(**wanted)).outcomes)
    (count,) = counts(joined)
    return count.model, count.benchmark, count.items, count.accuracy, count.unparsed


def write(path: Path, first: Any, *lines: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps(line) for line in (first, *lines)))
    return path


def proposed(error: Exception) -> dict[str, Any]:
    """The arguments that a refusal proposes."""
    words = shlex.split(str(error).rpartition("such as --map ")[2])
    arguments: dict[str, Any] = {
        "columns": dict(pair_of("--map", pair, "") for pair in words[0].split(","))
    }
    return arguments | ({"model": "m"} if "--model" in words else {})


# --- the samples: (folder and file, what is asked for, the score that is named, what is read),
# after (repository, file)

READ = {
    "openai/evals evals/record.py": (
        "21-openai-evals-events/r1_gpt-x_arith.jsonl",
        {},
        "correct",
        ("gpt-x", "arith.dev.v0", 10, 0.5, 0),
    ),
    "open-compass/opencompass openicl/icl_inferencer/icl_base_inferencer.py": (
        "22-opencompass-predictions/gsm8k.json",
        {"model": "m"},
        "reply",
        ("m", "gsm8k", 10, 1.0, 0),
    ),
    "open-compass/opencompass openicl/icl_evaluator/icl_base_evaluator.py": (
        "22-opencompass-predictions/gsm8k_results_details.json",
        {"model": "m"},
        "correct",
        ("m", "gsm8k_results_details", 10, 0.5, 0),
    ),
    "evalplus/evalplus evalplus/evaluate.py base": (
        "23-evalplus/humaneval_eval_results.json",
        {"model": "m", "metric": "base"},
        "base",
        ("m", "humaneval", 10, 1.0, 0),
    ),
    "evalplus/evalplus evalplus/evaluate.py plus": (
        "23-evalplus/humaneval_eval_results.json",
        {"model": "m", "metric": "plus"},
        "plus",
        ("m", "humaneval", 10, 0.5, 0),
    ),
    "promptfoo/promptfoo src/types/index.ts": (
        "25-promptfoo/results.json",
        {},
        "success",
        ("openai:gpt-x", "results", 6, 0.5, 0),
    ),
    "huggingface/lighteval src/lighteval/logging/info_loggers.py": (
        "28-lighteval-details/details_arc_0_2026-03-01T10-00-00.000000.parquet",
        {"model": "m"},
        "extractive_match",
        ("m", "arc|0", 20, 0.7, 0),
    ),
}


@pytest.mark.parametrize(("name", "wanted", "score", "read"), READ.values(), ids=READ)
def test_a_sample_is_read_with_the_name_of_its_score(
    shared_data: Path, name: str, wanted: dict[str, str], score: str, read: tuple[Any, ...]
) -> None:
    path = shared_data / "public_reports" / name
    assert read_log(path, Wanted(**wanted)).score == score
    assert accuracy(path, **wanted) == read


REFUSED = {
    "openai/simple-evals simple_evals.py": "26-simple-evals/mmlu_gpt-x.json",
    "lm-sys/FastChat fastchat/llm_judge/common.py": "24-mtbench-judgments/gpt-4_single.jsonl",
    "evalplus/evalplus evalplus/data/utils.py": "23-evalplus/humaneval_samples.jsonl",
}


@pytest.mark.parametrize("name", REFUSED.values(), ids=REFUSED)
def test_what_holds_no_outcome_is_refused_whatever_is_mapped(shared_data: Path, name: str) -> None:
    """MT-bench's -1 would be read as an error, and 1 of 10 as right."""
    for columns in ({}, {"item": "question_id", "correct": "score"}):
        with pytest.raises(NoOutcomesError):
            outcomes(shared_data / "public_reports" / name, columns=columns)


def test_base_and_plus_of_evalplus_differ_and_one_is_asked_for(shared_data: Path) -> None:
    path = shared_data / "public_reports/23-evalplus/humaneval_eval_results.json"
    with pytest.raises(DataError, match=r"base 1\.000, plus 0\.500") as refusal:
        outcomes(path, model="m")
    assert "--metric base" in str(refusal.value)
    with pytest.raises(ConfigError, match="--model"):
        outcomes(path)


# --- lighteval


def details(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def doc(number: int, choices: list[str], gold: list[int], **metric: float) -> dict[str, Any]:
    about = {
        "query": f"Q{number}?",
        "choices": choices,
        "gold_index": gold,
        "id": str(number),
        "task_name": "t|0",
    }
    return {"doc": about, "metric": metric, "model_response": {"text": ["A"], "logprobs": []}}


def test_lighteval_names_a_model_by_its_folder_and_asks_which_score(tmp_path: Path) -> None:
    """acc is 2 of 3 and acc_norm 1 of 3."""
    rows = [
        doc(k, ["cat", "dog"], [k % 2], acc=float(k < 2), acc_norm=float(k < 1)) for k in range(3)
    ]
    time = "2026-03-01T10-00-00.000000"
    path = details(tmp_path / "details/meta/llama" / time / f"details_t|0_{time}.parquet", rows)
    with pytest.raises(DataError, match=r"acc 0\.667, acc_norm 0\.333"):
        outcomes(path)
    assert accuracy(path, metric="acc_norm")[:3] == ("meta/llama", "t|0", 3)
    read = outcomes(path, metric="acc")
    assert [(outcome.right, outcome.options, outcome.gold) for outcome in read] == [
        (1, ("cat", "dog"), 0),
        (1, ("cat", "dog"), 1),
        (0, ("cat", "dog"), 0),
    ]


def test_choices_of_lighteval_that_are_all_gold_are_answers_and_no_options(tmp_path: Path) -> None:
    rows = [doc(0, ["18"], [0], em=1.0), doc(1, ["two", "2"], [0, 1], em=0.0)]
    read = outcomes(details(tmp_path / "d.parquet", rows), model="m")
    assert [(outcome.options, outcome.gold) for outcome in read] == [((), None), ((), None)]


def test_several_golds_of_lighteval_are_refused(tmp_path: Path) -> None:
    """Two of three are gold: a guess is right two times in three, and not once."""
    rows = [doc(0, ["a", "b", "c"], [0], acc=1.0), doc(1, ["a", "b", "c"], [0, 1], acc=1.0)]
    with pytest.raises(DataError, match="2 of 3"):
        outcomes(details(tmp_path / "d.parquet", rows), model="m")


def test_flat_details_of_older_lighteval_are_read(tmp_path: Path) -> None:
    flat = {
        "full_prompt": "x",
        "choices": ["cat", "dog"],
        "gold_index": [1],
        "predictions": [-3.5, -1.0],
    }
    rows = [flat | {"example": f"Q{k}?", "metrics": {"acc": float(k)}} for k in range(2)]
    read = outcomes(
        details(tmp_path / "details_harness|arc|25_2023-09-03T10-57-04.2.parquet", rows), model="m"
    )
    assert [
        (outcome.benchmark, outcome.right, outcome.answer, outcome.gold) for outcome in read
    ] == [
        ("harness|arc|25", 0, "B", 1),
        ("harness|arc|25", 1, "B", 1),
    ]


# --- OpenCompass


def test_details_of_opencompass_are_a_list_with_replicas_too(tmp_path: Path) -> None:
    """Replicas: 2 of 2, then 1 of 2 right: .75, as the total says."""
    each = [
        {"example_abbr": f"math_{k}", "pred": ["1", "2"], "answer": ["1", "1"]} for k in range(2)
    ]
    each = [row | {"correct": [True, k == 0]} for k, row in enumerate(each)]
    path = write(tmp_path / "results/qwen/math.json", {"accuracy": 75.0, "details": each})
    assert [
        (outcome.model, outcome.benchmark, outcome.sample, outcome.right, outcome.of)
        for outcome in outcomes(path)
    ] == [
        ("qwen", "math", "math_0", 1, 1),
        ("qwen", "math", "math_1", 1, 2),
    ]
    with pytest.raises(DataError, match=r"0\.5000 .* 0\.7500"):
        outcomes(write(path, {"accuracy": 50.0, "details": each}))


def test_details_of_opencompass_without_a_score_are_refused(tmp_path: Path) -> None:
    results = {
        "accuracy": 100.0,
        "details": {"type": "GEN", "0": {"predictions": "A", "references": "A"}},
    }
    with pytest.raises(DataError, match="predictions/"):
        outcomes(write(tmp_path / "results/qwen/arc.json", results))
    with pytest.raises(NoOutcomesError, match="dump-eval-details"):
        outcomes(write(tmp_path / "results/qwen/arc.json", {"accuracy": 100.0}))


def test_predictions_are_compared_as_a_table_of_replies_is(tmp_path: Path) -> None:
    replies = [("It is 2.", "#### 2"), ("So 1,000", "1000"), ("no idea", "7")]
    predictions = {
        str(k): {"origin_prompt": f"Q{k}", "prediction": reply, "gold": gold}
        for k, (reply, gold) in enumerate(replies)
    }
    read = outcomes(write(tmp_path / "predictions/qwen/gsm8k.json", predictions))
    assert [(outcome.model, outcome.right) for outcome in read] == [
        ("qwen", 1),
        ("qwen", 1),
        ("qwen", None),
    ]


def ppl(answers: str, keys: str, labels: str = "ABCD") -> dict[str, Any]:
    """Predictions of likelihoods, as PPLInferencerOutputHandler writes them."""
    return {
        str(k): {
            "origin_prompt": f"Q{k}",
            **{f"label: {label}": {"prompt": f"Q{k} {label}", "PPL": 1.0} for label in labels},
            "prediction": answer,
            "gold": key,
        }
        for k, (answer, key) in enumerate(zip(answers, keys, strict=True))
    }


def test_predictions_by_likelihood_have_their_labels_as_options(tmp_path: Path) -> None:
    read = outcomes(write(tmp_path / "predictions/qwen/arc.json", ppl("ABCD" * 10, "ABCA" * 10)))
    assert {outcome.options for outcome in read} == {tuple("ABCD")} and {
        outcome.benchmark for outcome in read
    } == {"arc"}
    assert [outcome.right for outcome in read] == [1, 1, 1, 0] * 10
    chosen = {
        str(k): {
            "testing input": "yes",
            "prompt": f"Q{k}",
            "choices": ["cat", "dog", "bird"],
            "gold": "dog",
            "prediction": [0.2, 0.7, 0.1],
            "pred_label": 1 + k % 2,
        }
        for k in range(20)
    }
    read = outcomes(write(tmp_path / "predictions/qwen/clp.json", chosen))
    assert [outcome.right for outcome in read] == [1, 0] * 10 and {
        len(outcome.options) for outcome in read
    } == {3}


def test_details_by_likelihood_have_their_labels_as_options(tmp_path: Path) -> None:
    details = {
        str(k): {
            "origin_prediction": {
                "A": {"PPL": 1.0},
                "B": {"PPL": 2.0},
                "gold": "B",
                "origin_prompt": f"Q{k}",
            },
            "predictions": "AB"[k % 2],
            "references": "B",
            "correct": k % 2 == 1,
        }
        for k in range(4)
    }
    read = outcomes(
        write(
            tmp_path / "results/qwen/arc.json",
            {"accuracy": 50.0, "details": {"type": "PPL", **details}},
        )
    )
    assert [(outcome.options, outcome.gold, outcome.right) for outcome in read] == [
        (("A", "B"), 1, k % 2) for k in range(4)
    ]


def test_parts_of_a_dataset_are_one_benchmark_and_a_temporary_file_is_unfinished(
    tmp_path: Path,
) -> None:
    for part in range(2):  # as the size partitioner writes them: each part counts from 0
        write(tmp_path / f"predictions/qwen/arc_{part}.json", ppl("AB", "AC"))
    write(
        tmp_path / "predictions/qwen/top_5.json", ppl("AB", "AC")
    )  # a name of its own: there is no top_0
    read = [
        outcome
        for _, log in read_logs(tmp_path, Wanted())
        if isinstance(log, Log)
        for outcome in log.outcomes
    ]
    assert Counter(outcome.benchmark for outcome in read) == {"arc": 4, "top_5": 2}
    assert len({outcome.sample for outcome in read if outcome.benchmark == "arc"}) == 4
    lines = [
        {"idx": k, "origin_prompt": f"Q{k}", "prediction": "It is 2.", "gold": "2"}
        for k in range(3)
    ]
    for name, rows in (
        ("tmp_gsm8k.jsonl", lines),
        ("tmp_gsm8k.json", [{str(k): line for k, line in enumerate(lines)}]),
    ):
        log = read_log(write(tmp_path / f"tmp/predictions/qwen/{name}", *rows), Wanted())
        assert log.unfinished.startswith("3 samples")
        assert [(outcome.benchmark, outcome.right) for outcome in log.outcomes] == [
            ("gsm8k", 1)
        ] * 3


# --- openai/evals


def events(path: Path, *each: dict[str, Any], report: Any = None) -> Path:
    lines = [{"run_id": "r", "event_id": k, **fields} for k, fields in enumerate(each)]
    end = [] if report is None else [{"final_report": report}]
    return write(path, {"spec": {"completion_fns": ["gpt"], "eval_name": "e.dev.v0"}}, *lines, *end)


def event(sample: int, kind: str, **data: Any) -> dict[str, Any]:
    return {"sample_id": f"e.dev.{sample}", "type": kind, "data": data}


def test_events_of_an_unfinished_run_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unfinished"):
        outcomes(events(tmp_path / "a.jsonl", event(0, "match", correct=True)))


def test_metrics_of_events_are_named_and_an_error_is_no_answer(tmp_path: Path) -> None:
    """Means of f1 over two samples with a score: (.5 + 1)/2 = .75; accuracy 1/2."""
    log = events(
        tmp_path / "a.jsonl",
        event(0, "metrics", accuracy=0.0, f1_score=0.5, length=12),
        event(1, "metrics", accuracy=1.0, f1_score=1.0, length=7),
        event(2, "error", type="Timeout", message="60 s"),
        report={"accuracy": 0.5},
    )
    with pytest.raises(DataError, match=r"accuracy 0\.500, f1_score 0\.750"):
        outcomes(log)
    read = outcomes(log, metric="accuracy")
    assert [(outcome.right, outcome.error) for outcome in read] == [
        (0, None),
        (1, None),
        (None, "Timeout: 60 s"),
    ]
    with pytest.raises(DataError, match=r"0\.9000 .* 0\.5000"):
        outcomes(
            events(
                log,
                event(0, "match", correct=True),
                event(1, "match", correct=False),
                report={"accuracy": 0.9},
            )
        )


# --- EvalPlus and promptfoo


def test_results_of_evalplus_until_0_2_and_several_solutions(tmp_path: Path) -> None:
    """base: 2 of 2 and 1 of 2; plus needs both: 1 of 2 and 0 of 2."""
    tasks = {
        "Mbpp/2": {
            "nfiles": 2,
            "base": [["success", []]] * 2,
            "plus": [["success", []], ["failed", []]],
        },
        "Mbpp/3": {
            "nfiles": 2,
            "base": [["success", []], ["timed out", []]],
            "plus": [["failed", []], ["success", []]],
        },
    }
    path = write(tmp_path / "org--m_vllm_temp_0.0_eval_results.json", {"hash": "h", "eval": tasks})
    assert [
        (outcome.model, outcome.benchmark, outcome.right, outcome.of)
        for outcome in outcomes(path, metric="plus")
    ] == [
        ("org/m", "mbpp", 1, 2),
        ("org/m", "mbpp", 0, 2),
    ]
    assert [(outcome.right, outcome.of) for outcome in outcomes(path, metric="base")] == [
        (2, 2),
        (1, 2),
    ]


def result(test: int, passed: bool, **others: Any) -> dict[str, Any]:
    return {
        "promptIdx": 0,
        "testIdx": test,
        "provider": {"id": "p"},
        "vars": {"question": f"Q{test}"},
        "response": {"output": "y"},
        "success": passed,
        "score": float(passed),
        "error": "not x",
        "failureReason": 1,
    } | others


def test_a_failed_assertion_of_promptfoo_is_wrong_and_an_error_is_no_answer(tmp_path: Path) -> None:
    """`error` holds the reason of a failed assertion too; without an assertion every test is a
    success."""
    each = [
        result(0, False),
        result(1, False, failureReason=2, response={"error": "429"}),
        result(2, True, gradingResult={"pass": True, "score": 1, "reason": "No assertions"}),
        result(3, True),
    ]
    path = write(tmp_path / "r.json", {"results": {"results": each}})
    assert [outcome.right for outcome in outcomes(path)] == [0, None, None, 1]
    assert [outcome.right for outcome in outcomes(write(tmp_path / "r.jsonl", *each))] == [
        0,
        None,
        None,
        1,
    ]


def test_prompts_of_promptfoo_are_benchmarks_and_partial_scores_are_asked_for(
    tmp_path: Path,
) -> None:
    each = [
        result(k, k == 0, prompt={"label": label, "raw": f"{label} {k}"})
        for label in ("short", "long")
        for k in range(2)
    ]
    path = write(tmp_path / "r.json", {"results": {"results": each}})
    assert [(outcome.benchmark, outcome.right) for outcome in outcomes(path)] == [
        ("r, prompt 1", 1),
        ("r, prompt 1", 0),
        ("r, prompt 2", 1),
        ("r, prompt 2", 0),
    ]
    with pytest.raises(DataError, match=r"success 0\.500, score 0\.750"):
        outcomes(
            write(path, {"results": {"results": [result(0, True), result(1, False, score=0.5)]}})
        )


# --- nested tables


def test_dotted_columns_and_list_places_are_mapped(tmp_path: Path) -> None:
    rows = [
        {
            "doc": {"id": f"q{k}", "choices": ["cat", "dog"]},
            "metrics": {"acc": k},
            "out": [{"text": "dog"}],
        }
        for k in (0, 1)
    ]
    path = write(tmp_path / "a.jsonl", *rows)
    with pytest.raises(ConfigError) as refusal:
        outcomes(path)
    assert proposed(refusal.value) == {
        "columns": {"item": "doc.id", "correct": "metrics.acc", "options": "doc.choices"},
        "model": "m",
    }
    read = outcomes(path, **proposed(refusal.value))
    assert [(outcome.key, outcome.right, outcome.options) for outcome in read] == [
        ("q0", 0, ("cat", "dog")),
        ("q1", 1, ("cat", "dog")),
    ]
    mapped = {"item": "doc.id", "correct": "metrics.acc", "answer": "out.0.text"}
    assert [outcome.answer for outcome in outcomes(path, model="m", columns=mapped)] == [
        "dog",
        "dog",
    ]
    with pytest.raises(DataError, match="item is list"):
        outcomes(path, model="m", columns=mapped | {"item": "doc.choices"})
    with pytest.raises(ConfigError, match=r"no column 'doc\.nr'"):
        outcomes(path, model="m", columns=mapped | {"item": "doc.nr"})


def test_a_document_that_holds_one_list_of_objects_is_a_table(tmp_path: Path) -> None:
    rows = [{"item": k, "correct": k % 2} for k in range(4)]
    path = tmp_path / "a.json"
    assert accuracy(write(path, {"model": "m", "n": 4, "data": {"rows": rows}})) == (
        "m",
        "a",
        4,
        0.5,
        0,
    )
    path.write_text(json.dumps({"model": "m", "rows": rows}, indent=1))
    assert accuracy(path) == ("m", "a", 4, 0.5, 0)
    with pytest.raises(DataError, match="rows, others"):
        outcomes(write(path, {"model": "m", "rows": rows, "others": rows}))
    row = {
        "model": "m",
        "item": 1,
        "correct": 1,
        "messages": [{"role": "user"}],
    }  # a table of one row
    assert accuracy(write(path, row)) == ("m", "a", 1, 1.0, 0)


NAMES = st.sampled_from(
    [
        *("id", "doc", "acc", "score", "answer", "gold", "model", "x y", "a.b", "choices", "meta"),
        *("item", "correct", "right", "n", "of", "set"),
    ]
)
VALUES = st.one_of(
    st.integers(0, 3),
    st.booleans(),
    st.sampled_from(["A", "n", "", "7"]),
    st.none(),
    st.floats(0, 1),
)
ROWS = st.recursive(
    st.dictionaries(NAMES, VALUES, max_size=5),
    lambda inner: st.dictionaries(NAMES, st.one_of(VALUES, inner), max_size=4),
)


@given(row=ROWS, has_model=st.booleans())
@example({"id": 0, "gold": 0, "doc": {"answer": 0}, "correct": 2}, True)
def test_what_is_proposed_reads_the_row(
    tmp_path_factory: pytest.TempPathFactory, row: Any, has_model: bool
) -> None:
    """Of any nested row: a proposal that does not read it would be advice that cannot work."""
    words = propose(row, has_model)
    if "COLUMN" not in words:
        arguments = proposed(Exception(f"such as {words}")) | ({"model": "m"} if has_model else {})
        path = write(tmp_path_factory.mktemp("rows") / "a.jsonl", row)
        try:
            assert len(outcomes(path, **arguments)) == 1
        except ConfigError as error:  # answer and key of one row can be read in several ways
            assert "correct" not in arguments["columns"] and "as" in str(error)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (
            {"model": "a", "item": "1", "right": "3", "n": "10", "set": "x"},
            "correct=right,of=n,benchmark=set",
        ),
        ({"model": "a", "item": "1", "right": "1", "n": "10"}, "correct=right,of=n"),
        ({"model": "a", "item": "1", "right": "1"}, "correct=right"),
        ({"model": "a", "item": "1", "zork": "1"}, "correct=COLUMN"),
        ({"model": "a", "zork": "0", "pred": "B", "gold": "A"}, "item=COLUMN,answer=pred"),
    ],
)
def test_a_proposal_maps_what_the_names_suggest_and_names_what_is_missing(
    row: dict[str, str], words: str
) -> None:
    assert propose(row, has_model=False) == f"--map {words}"


# --- folders


def test_a_folder_of_opencompass_is_taken_whole(tmp_path: Path) -> None:
    for model, right in (("a", 1), ("b", 0)):
        entry = {"pred": "1", "answer": "1", "correct": bool(right)}
        write(
            tmp_path / f"run/results/{model}/gsm8k.json",
            {"accuracy": 100.0 * right, "details": {"0": entry}},
        )
        reply = {"0": {"origin_prompt": "Q", "prediction": "1", "gold": "1"}}
        write(tmp_path / f"run/predictions/{model}/gsm8k.json", reply)
    (tmp_path / "run/summary").mkdir()
    (tmp_path / "run/summary/summary.csv").write_text("dataset,version\ngsm8k,1\n")
    logs = list(read_logs(tmp_path / "run", Wanted()))
    read = [
        [outcome.model, outcome.right]
        for _, log in logs
        if not isinstance(log, str)
        for outcome in log.outcomes
    ]
    assert read == [["a", 1], ["b", 0]] and sum(isinstance(log, str) for _, log in logs) == 2


def test_totals_in_a_folder_are_left_out_and_alone_they_are_refused(
    tmp_path: Path, capsys: Capsys
) -> None:
    rows = [{"model": name, "item": k, "correct": k % 2} for name in "ab" for k in range(20)]
    write(tmp_path / "logs/arc.jsonl", *rows)
    write(tmp_path / "logs/deep/gsm8k.jsonl", *rows)
    write(tmp_path / "logs/results.json", {"score": 0.5, "score:std": 0.5})
    assert main([str(tmp_path / "logs"), "--benchmark", "arc", "-o", str(tmp_path / "run")]) == 0
    output = capsys.readouterr().out
    assert "left out: results.json" in output
    logs = json.loads((tmp_path / "run/manifest.json").read_text())["config"]["logs"]
    assert [log["file"] for log in logs] == ["arc.jsonl", "deep/gsm8k.jsonl"]
    (tmp_path / "logs/arc.jsonl").unlink()
    (tmp_path / "logs/deep/gsm8k.jsonl").unlink()
    with pytest.raises(ConfigError, match="has no log"):
        list(read_logs(tmp_path / "logs", Wanted()))


def test_totals_of_lm_eval_are_read_with_their_samples_and_not_as_a_log(tmp_path: Path) -> None:
    samples = tmp_path / "samples_arc_2026-01-02T03-04-05.678.jsonl"
    write(samples, {"doc_id": 1})
    write(tmp_path / "results_2026-01-02T03-04-05.678.json", {"results": {}, "configs": {}})
    write(tmp_path / "results_2026-09-09T03-04-05.678.json", {"results": {}, "configs": {}})
    _, files = logs_in(tmp_path)
    assert [file.name for file in files] == ["results_2026-09-09T03-04-05.678.json", samples.name]


def test_a_folder_has_no_links_no_pipes_and_no_endless_levels(tmp_path: Path) -> None:
    write(tmp_path / "secret.json", {"score": 1})
    logs = tmp_path / "logs"
    write(logs / "a.jsonl", {"model": "m", "item": 1, "correct": 1})
    (logs / "link.json").symlink_to(tmp_path / "secret.json")
    (logs / "round").symlink_to(logs)
    os.mkfifo(logs / "pipe.json")
    assert logs_in(logs) == ([], [logs / "a.jsonl"])
    (logs / "/".join("d" * (MAX_DEPTH + 1))).mkdir(parents=True)
    with pytest.raises(DataError, match="levels deep"):
        logs_in(logs)


# --- hostile


DEEP = '{"a":' * 100_000 + "1" + "}" * 100_000
HOSTILE: dict[str, Callable[[], str]] = {
    "deep document": lambda: '{"results": {"results": [' + DEEP + "]}}",
    "deep details": lambda: '{"details": {"0": {"correct": true, "pred": ' + DEEP + "}}}",
    "evalplus of lists": lambda: json.dumps(
        {"eval": {"a/1": [{"base_status": "pass"}], "a/2": [[]]}}
    ),
    "no solution": lambda: json.dumps({"eval": {"a/1": [{"base_status": "pass"}], "a/2": []}}),
    "promptfoo of texts": lambda: json.dumps({"results": {"results": [result(0, True), "x"]}}),
    "spec of a number": lambda: json.dumps({"spec": {"eval_name": 1, "completion_fns": 3}}),
    "events of texts": lambda: (
        json.dumps({"spec": {"eval_name": "e"}}) + '\n{"sample_id": "1", "data": "x"}'
    ),
    "details of nothing": lambda: json.dumps(
        {"details": {"0": {"correct": None}, "1": {"pred": 3}}}
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_document_is_refused_in_a_sentence(name: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(HOSTILE[name]())
    with pytest.raises(AuditError):
        outcomes(path, model="m")
