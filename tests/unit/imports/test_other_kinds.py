"""Logs of a reader who did not write the readers: each kind had a wrong score without a word."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from audit.core.errors import ConfigError, DataError
from audit.imports.chance import with_options
from audit.imports.checks import measures
from audit.imports.detect import read_log
from audit.imports.join import Joined, counts
from audit.imports.record import Log, Wanted
from audit.imports.typed import Columns

N = 40
RIGHT = [i % 4 != 3 for i in range(N)]  # 30 of 40: .75


def table(path: Path, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> Path:
    """A csv of one model; the item is the row's number."""
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(
            [("model", "item", *header), *(("m", i, *row) for i, row in enumerate(rows))]
        )
    return path


def scored(path: Path, **wanted: Any) -> tuple[int, Any, int, Log]:
    """(items, accuracy, unparsed, log) of a log of one model."""
    log, joined = read_log(path, Wanted(**wanted)), Joined()
    joined.add(path.name, log.outcomes, log.unfinished)
    (count,) = counts(joined)
    return count.items, pytest.approx(count.accuracy), count.unparsed, log


@pytest.mark.parametrize("joint", ["", ",", ", ", "、", " & "])
def test_several_right_letters_are_a_set(joint: str, tmp_path: Path) -> None:
    keys = [
        ("AC", "BD", "ABD", "C")[i % 4] for i in range(N)
    ]  # every fourth answer has a letter too few
    rows = [(joint.join(reversed(key if key != "C" else "CD")), key) for key in keys]
    assert scored(table(tmp_path / "t.csv", ["answer", "gold"], rows))[:3] == (N, 0.75, 0)


def test_words_of_the_first_letters_are_no_sets(tmp_path: Path) -> None:
    rows = [("bad", "bad") if right else ("dab", "bad") for right in RIGHT]
    assert scored(table(tmp_path / "t.csv", ["answer", "gold"], rows))[1] == 0.75


@pytest.mark.parametrize(
    ("exact", "short"), [("1/7", "0.1429"), ("3.14159", "3.14"), ("0.67", "2/3")]
)
def test_a_number_with_fewer_decimals_is_not_clearly_another(
    exact: str, short: str, tmp_path: Path
) -> None:
    rows = [
        (exact, short) if i < 10 else ("5.25", short) if i < 20 else (short, short)
        for i in range(N)
    ]
    *read, log = scored(table(tmp_path / "t.csv", ["answer", "gold"], rows))
    assert read == [N, 20 / 30, 10]  # 10 of 30 are another number
    assert log.notes == [
        f"10 of {N} answers of t.csv are neither clearly the key nor clearly another, such as {exact!r} beside "
        f"{short!r}: the score is of the others"
    ]


def test_the_number_of_no_option_is_no_answer(tmp_path: Path) -> None:
    rows = [(i % 4 if RIGHT[i] else -1, i % 4) for i in range(N)]
    assert scored(table(tmp_path / "t.csv", ["answer", "gold"], rows))[:3] == (N, 1.0, 10)


def test_minus_one_is_an_answer_among_numbers(tmp_path: Path) -> None:
    rows = [(3 * i - 60 if RIGHT[i] else -1, 3 * i - 60) for i in range(N)]
    assert scored(table(tmp_path / "t.csv", ["answer", "gold"], rows))[:3] == (N, 0.75, 0)


def test_a_column_that_marks_right_answers_alone_is_refused(tmp_path: Path) -> None:
    path = table(tmp_path / "t.csv", ["correct"], [("1" if right else "",) for right in RIGHT])
    with pytest.raises(
        DataError, match=r"correct is '1' in 30 rows and empty in 10\. Expected a score"
    ):
        scored(path)
    few = table(tmp_path / "few.csv", ["correct"], [("1" if i else "",) for i in range(N)])
    assert scored(few)[:3] == (N, 1.0, 1)


@pytest.mark.parametrize("column", ["incorrect", "is_wrong", "num-errors"])
def test_a_score_whose_name_says_wrong_is_refused(column: str, tmp_path: Path) -> None:
    path = table(tmp_path / "t.csv", [column], [(int(not right),) for right in RIGHT])
    with pytest.raises(ConfigError, match="by its name says what is wrong"):
        scored(path, columns={"correct": column})


def test_a_key_beyond_the_given_number_of_options_is_refused(tmp_path: Path) -> None:
    keys = [("ABCDE"[i % 5],) * 2 for i in range(N)]
    log = read_log(table(tmp_path / "t.csv", ["answer", "gold"], keys), Wanted())
    with pytest.raises(
        ConfigError, match=r"--options is 4, and the key of item '4' is E\. Expected at least 5"
    ):
        list(with_options(log.outcomes, 4))
    truths = [("TF"[i % 2],) * 2 for i in range(N)]
    log = read_log(table(tmp_path / "truths.csv", ["answer", "gold"], truths), Wanted())
    assert len(list(with_options(log.outcomes, 2))) == N


def test_samples_of_lm_eval_that_are_fewer_than_its_results_count_are_noted(tmp_path: Path) -> None:
    time = "2026-05-01T10-00-00.000000"
    results = {"model_name": "m", "n-samples": {"task": {"original": N, "effective": N}}}
    (tmp_path / f"results_{time}.json").write_text(json.dumps(results))
    path = tmp_path / f"samples_task_{time}.jsonl"
    lines = [
        json.dumps({"doc_id": i, "doc": {"question": f"q{i}"}, "acc": float(RIGHT[i])})
        for i in range(N)
    ]
    path.write_text("\n".join(lines[:30]))
    assert scored(path)[3].notes == [
        f"{path.name} holds 30 samples and results_{time}.json counts 40: the log may be cut off"
    ]
    path.write_text("\n".join(lines))
    *read, log = scored(path)
    assert (read, log.notes) == ([N, 0.75, 0], [])


def test_a_mean_that_the_results_record_is_the_mean_of_the_samples_and_a_limit_is_noted(
    tmp_path: Path,
) -> None:
    """30 of 40 are right: .75. A mean of .80 is of other samples. The task has 400 items."""
    time = "2026-05-01T10-00-00.000000"
    path = tmp_path / f"samples_task_{time}.jsonl"
    lines = [
        json.dumps(
            {"doc_id": i, "doc": {"question": f"q{i}"}, "filter": "none", "acc": float(RIGHT[i])}
        )
        for i in range(N)
    ]
    path.write_text("\n".join(lines))
    for mean in (0.75, 0.7504, 0.8):  # results may be rounded
        many = {"task": {"original": 400, "effective": N}}
        results = {"model_name": "m", "n-samples": many, "results": {"task": {"acc,none": mean}}}
        (tmp_path / f"results_{time}.json").write_text(json.dumps(results))
        if mean == 0.8:
            with pytest.raises(DataError, match=r"0\.8000 .* 0\.7500"):
                scored(path)
        else:
            (note,) = scored(path)[3].notes
            assert "the first 40 of 400 items" in note


@pytest.mark.parametrize(
    ("value", "counts"),
    [("0.{:02d}", False), ("{}/100", True), ("0.{}", True)],
    ids=["hundredths", "counts", "tenths"],
)
def test_decimals_of_a_hundred_are_taken_for_probabilities_and_counts_are_not(
    value: str, counts: bool, tmp_path: Path
) -> None:
    """.11, .12, ... may be k of 100 trials or probabilities in two decimals; 11/100 is a count, and
    .1 is 1 of 10."""
    rows = [(value.format(k % 10 if counts and "/" not in value else 11 + k),) for k in range(N)]
    log = read_log(table(tmp_path / "t.csv", ["correct"], rows), Wanted())
    joined = Joined()
    joined.add("t.csv", log.outcomes)
    assert bool(measures(joined)) is not counts


@pytest.mark.parametrize(
    ("n_samples", "unfinished"), [(30, "the log holds 30 of 40 completed samples"), (N, "")]
)
def test_a_log_of_inspect_without_all_completed_samples_is_not_finished(
    n_samples: int, unfinished: str, tmp_path: Path
) -> None:
    samples = [
        {
            "id": i,
            "epoch": 1,
            "input": f"q{i}",
            "target": "x",
            "scores": {"match": {"value": "CI"[not RIGHT[i]]}},
        }
        for i in range(n_samples)
    ]
    results = {"total_samples": N, "completed_samples": N}
    log = {
        "status": "success",
        "eval": {"model": "m", "task": "t"},
        "results": results,
        "samples": samples,
    }
    path = tmp_path / "log.json"
    path.write_text(json.dumps(log))
    assert read_log(path, Wanted()).unfinished == unfinished


def test_repeats_of_a_promptfoo_test_are_trials_of_one_item(tmp_path: Path) -> None:
    # evaluator.ts gives each repeat a testIdx of its own, with the same variables.
    results = [
        {
            "provider": {"id": "m"},
            "testIdx": 2 * i + k,
            "vars": {"question": f"q{i}"},
            "testCase": {"assert": []},
            "response": {"output": "x"},
            "success": RIGHT[i] or k == 1,
            "score": float(RIGHT[i] or k == 1),
            "failureReason": 0,
        }
        for i in range(N)
        for k in (0, 1)
    ]
    path = tmp_path / "output.json"
    path.write_text(json.dumps({"results": {"results": results}}))
    assert scored(path)[:3] == (N, 0.875, 0)  # 30 items twice right, 10 once


def test_the_main_metric_of_ifeval_in_helm_is_read(tmp_path: Path) -> None:
    spec = {"name": "ifeval:model=m", "adapter_spec": {"model": "m"}}
    states = [
        {
            "instance": {"id": f"id{i}", "input": {"text": f"q{i}"}},
            "result": {"completions": [{"text": "x"}]},
        }
        for i in range(N)
    ]
    stats = [
        {
            "instance_id": f"id{i}",
            "stats": [
                {"name": {"name": "exact_match"}, "mean": 0.0},
                {"name": {"name": "ifeval_strict_accuracy"}, "mean": float(RIGHT[i])},
            ],
        }
        for i in range(N)
    ]
    files = {
        "run_spec": spec,
        "scenario_state": {"request_states": states},
        "per_instance_stats": stats,
    }
    for name, content in files.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    *read, log = scored(tmp_path)
    assert (read, log.score) == ([N, 0.75, 0], "ifeval_strict_accuracy")


def test_letters_that_are_texts_of_other_options_are_refused() -> None:
    """Answers are texts, of which the second right one is wrong as a letter; a sentence shows
    nothing of that."""
    rows = [("The answer is A because it must be.", "1", ("A", "B", "C"))] * 2
    rows += [("Answer: C", "3", ("A", "C", "B"))]
    columns = Columns()
    for row in rows:
        columns.add(*row)
    with pytest.raises(
        ConfigError, match=r"--answer-as letter .*score 1\.000.*--answer-as text .*score 0\.667"
    ):
        columns.typing()
    scores = [columns.typing(answer_as=kind).judge(*rows[2])[0] for kind in ("letter", "text")]
    assert scores == [True, False]


@pytest.mark.parametrize("keyed", ["B. {}", "(B) {}", "The answer is {} because it must be."])
@pytest.mark.parametrize("answered", ["B. {}", "{}", "Answer: {}"])
def test_keys_with_and_without_their_letters_are_no_other_answers(
    answered: str, keyed: str, tmp_path: Path
) -> None:
    """Every answer is right; that every second key says more than its text makes none wrong."""
    texts = ("copper", "iron", "none of these")
    path = tmp_path / "log.jsonl"
    rows = []
    for i in range(N):
        text = texts[i % 3]
        letter = "ABC"[i % 3]
        key = (keyed.replace("B", letter).format(text), text)[i % 2]
        answer = answered.replace("B", letter).format(text)
        rows.append({"model": "m", "item": f"q{i}", "answer": answer, "gold": key})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    try:
        items, accuracy, unparsed, _ = scored(path)
    except ConfigError:
        return
    assert (items, accuracy) == (N, 1.0) and unparsed < N
