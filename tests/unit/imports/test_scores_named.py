"""No score is read without its name: filters of lm-eval, metrics of HELM, scorers of Inspect;
chance; unfinished logs.

The inputs are shaped after symptoms in public trackers (lm-evaluation-harness, helm #793, inspect_ai #5054, #2300,
#2104, evalscope #1583); nothing is copied from there.
"""

import json
import time
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands_here import gate, import_logs
from governed import Capsys

from audit.core.errors import ConfigError, DataError
from audit.imports.chance import check_above_guessing, unknown_chance
from audit.imports.checks import check_logs
from audit.imports.detect import read_log
from audit.imports.join import Joined, counts, rejoin_by_text
from audit.imports.record import Imported, Log, Wanted


def read_joined(logs: Iterable[Log]) -> list[Any]:
    joined = Joined()
    for k, log in enumerate(logs):
        joined.add(f"log {k}", log.outcomes)
    return counts(joined)


def lm_eval(path: Path, rows: Iterable[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def generated(k: int, read: str, score: float, name: str = "strict-match") -> dict[str, Any]:
    doc = {"question": f"What is {k} and one?"}
    return {
        "doc_id": k,
        "doc": doc,
        "target": str(k + 1),
        "arguments": {},
        "resps": [["text"]],
        "filtered_resps": [read],
        "filter": name,
        "metrics": ["exact_match"],
        "doc_hash": str(k),
        "exact_match": score,
    }


def several_filters(path: Path, strict: int, flexible: int, n: int = 40) -> Path:
    """A log in which the first so many items are right by each filter."""
    rows = [generated(k, str(k + 1), float(k < strict)) for k in range(n)]
    rows += [generated(k, str(k + 1), float(k < flexible), "flexible-extract") for k in range(n)]
    return lm_eval(path, rows)


ASKED = {"model": "m", "benchmark": "gsm"}


def test_filters_that_differ_by_more_than_chance_are_refused_and_one_can_be_chosen(
    tmp_path: Path,
) -> None:
    # 8 and 32 of 40: 24 items are right by one filter alone, none by the other: p = 2 x 2^-24.
    path = several_filters(tmp_path / "samples.jsonl", 8, 32)
    with pytest.raises(
        DataError, match=r"flexible-extract 0\.800, strict-match 0\.200.*--filter strict-match"
    ):
        list(read_log(path, Wanted(**ASKED)).outcomes)
    for name, accuracy in (("strict-match", 0.2), ("flexible-extract", 0.8)):
        log = read_log(path, Wanted(**ASKED, filter=name))
        (count,) = read_joined([log])
        assert count.accuracy == pytest.approx(accuracy) and name in log.score
        assert "0.200" in log.notes[0] and "0.800" in log.notes[0]
    with pytest.raises(
        DataError, match=r"Expected one of samples\.jsonl: flexible-extract, strict-match"
    ):
        list(read_log(path, Wanted(**ASKED, filter="none")).outcomes)


@pytest.mark.parametrize("listed", [True, False])
def test_scores_that_differ_from_the_one_that_is_read_are_named_and_can_be_chosen(
    listed: bool, tmp_path: Path
) -> None:
    """10 and 16 of 20; a score that agrees, and one that is no share, are not named."""
    rows = [
        scored(k, k < 10, 4, {})
        | {"acc_norm": float(k < 16), "acc_bytes": float(k < 10), "tokens": 300}
        | ({"metrics": ["acc", "acc_norm", "tokens"]} if listed else {"metrics": None})
        for k in range(20)
    ]
    path = lm_eval(tmp_path / "samples.jsonl", rows)
    for metric, read, other in (
        ("", "acc 0.500", "(acc_norm 0.800)"),
        ("acc_norm", "acc_norm 0.800", "acc 0.500"),
    ):
        log = read_log(path, Wanted(**ASKED, metric=metric))
        (count,) = read_joined([log])
        assert count.accuracy == float(read.split()[1]) and log.score == read.split()[0]
        (note,) = log.notes
        assert f"{read} is read" in note and other in note and "tokens" not in note


def test_filters_that_differ_by_no_more_than_chance_are_named_and_the_first_is_read(
    tmp_path: Path,
) -> None:
    # 20 and 22 of 40: two items differ, p = 2 x 2^-2 = .5.
    log = read_log(several_filters(tmp_path / "samples.jsonl", 20, 22), Wanted(**ASKED))
    (count,) = read_joined([log])
    assert count.accuracy == 0.5 and "strict-match is read" in log.notes[0]


def test_what_a_filter_calls_invalid_counts_as_its_authors_count_it(tmp_path: Path) -> None:
    rows = [generated(k, "[invalid]" if k < 4 else "5", float(k >= 5)) for k in range(10)]
    log = read_log(lm_eval(tmp_path / "samples.jsonl", rows), Wanted(**ASKED))
    (count,) = read_joined([log])
    assert (count.accuracy, count.unparsed) == (0.5, 0)
    assert log.notes[0].startswith("4 of 10 replies")


def scored(k: int, right: bool, n: int, arguments: Any, **doc: Any) -> dict[str, Any]:
    """An item whose options were scored; the key is the first option."""
    likely = 0 if right else 1
    read = [["-1.0" if place == likely else "-5.0", "False"] for place in range(n)]
    return {
        "doc_id": k,
        "doc": {"question": f"Item {k}?", **doc},
        "target": 0,
        "arguments": arguments,
        "resps": [[reply] for reply in read],
        "filtered_resps": read,
        "filter": "none",
        "metrics": ["acc"],
        "doc_hash": str(k),
        "acc": float(right),
    }


@pytest.mark.parametrize(
    ("arguments", "doc", "options"),
    [
        (
            {
                f"gen_args_{k}": {"arg_0": "Q", "arg_1": text}
                for k, text in enumerate((" yes", " no"))
            },
            {},
            ("yes", "no"),
        ),
        ([["Q", " no"], ["Q", " yes"]], {}, ("no", "yes")),  # as older versions have it
        (
            [["Ann left", " home."], ["Bob left", " home."]],
            {},
            ("Ann left", "Bob left"),
        ),  # winogrande
        ({}, {}, ("A", "B")),  # nothing tells the texts
        ({}, {"mc1_targets": {"choices": ["true", "false"], "labels": [1, 0]}}, ("true", "false")),
        (
            {},
            {"choices": ["only", "three", "here"]},
            ("A", "B"),
        ),  # a field of another length is not what was scored
    ],
)
def test_the_options_are_as_many_as_were_scored(
    tmp_path: Path, arguments: Any, doc: Any, options: Any
) -> None:
    rows = [scored(k, k < 6, 2, arguments, **doc) for k in range(10)]
    outcomes = list(read_log(lm_eval(tmp_path / "samples.jsonl", rows), Wanted(**ASKED)).outcomes)
    assert {outcome.options for outcome in outcomes} == {options} and {
        outcome.gold for outcome in outcomes
    } == {0}
    assert sum(outcome.right or 0 for outcome in outcomes) == 6


def test_a_key_that_the_score_contradicts_is_not_told(tmp_path: Path) -> None:
    row = scored(0, True, 4, {}) | {
        "target": 3
    }  # the first option is likeliest, and the score says right
    (outcome,) = read_log(lm_eval(tmp_path / "samples.jsonl", [row]), Wanted(**ASKED)).outcomes
    assert (outcome.gold, outcome.right, len(outcome.options)) == (None, 1, 4)


def test_logs_that_give_one_item_two_keys_are_refused(tmp_path: Path) -> None:
    runs = []
    for name, shift in (("one", 1), ("two", 2)):
        rows = [generated(k, "5", 1.0) | {"target": str(k + shift)} for k in range(20)]
        runs.append(
            read_log(lm_eval(tmp_path / f"{name}.jsonl", rows), Wanted(model=name, benchmark="gsm"))
        )
    joined = Joined()
    for log in runs:
        joined.add("log", log.outcomes)
    assert len(joined.changed["gsm"]) == 20


def test_options_that_were_shuffled_anew_are_put_back_and_joined_by_their_words(
    shared_data: Path,
) -> None:
    folder = shared_data / "public_reports" / "20-lmeval-gpqa-unseeded-shuffle"
    joined = Joined()
    for name in ("m1", "m2"):
        joined.add(
            name, read_log(folder / f"{name}.jsonl", Wanted(model=name, benchmark="gpqa")).outcomes
        )
    rejoin_by_text(joined)
    first, second = counts(joined)
    assert (first.items, second.items, first.lacking, second.lacking) == (40, 40, 0, 0)
    items = joined.items["gpqa"]
    for model in ("m1", "m2"):
        for key, (outcome,) in joined.answers[model, "gpqa"].items():
            gold = items[key].gold
            assert gold is not None and (outcome.answer == "ABCD"[gold]) == (outcome.right == 1)


def test_options_that_are_asked_with_and_without_the_question_are_not_twice_as_many(
    tmp_path: Path,
) -> None:
    """acc_mutual_info: chance of two options is 1/2; four letters would make it 1/4."""
    calls = [["Q", " no"], ["Q", " yes"], ["", " no"], ["", " yes"]]
    rows = [scored(k, k < 6, 4, calls) for k in range(10)]
    outcomes = list(read_log(lm_eval(tmp_path / "samples.jsonl", rows), Wanted(**ASKED)).outcomes)
    assert {outcome.options for outcome in outcomes} == {("no", "yes")} and {
        outcome.gold for outcome in outcomes
    } == {0}
    assert [outcome.answer for outcome in outcomes] == ["A"] * 6 + ["B"] * 4


@pytest.mark.parametrize("target", [[0, 2], "[0, 2]"])
def test_an_item_of_several_keys_is_refused(target: object, tmp_path: Path) -> None:
    row = scored(0, True, 3, {}) | {"target": target}
    with pytest.raises(DataError, match=r"\[0, 2\]"):
        list(read_log(lm_eval(tmp_path / "samples.jsonl", [row]), Wanted(**ASKED)).outcomes)


def table(path: Path, answers: Iterable[str], right: Iterable[bool], options: str = "") -> Path:
    head = "model,item,answer,correct" + (",options" if options else "")
    rows = [
        f"m,{k},{answer},{int(ok)}" + (f",{options}" if options else "")
        for k, (answer, ok) in enumerate(zip(answers, right, strict=True))
    ]
    path.write_text("\n".join([head, *rows]) + "\n")
    return path


def joined_of(path: Path) -> Joined:
    joined = Joined()
    joined.add(path.name, read_log(path, Wanted(benchmark="b")).outcomes)
    return joined


def test_a_score_far_below_guessing_is_an_alarm(tmp_path: Path) -> None:
    # 100 items of four options, none right: .75^100 = 3e-13 by guessing. 17 right: P(X <= 17) =
    # .038, no alarm.
    for right, alarm in ((0, True), (17, False), (25, False), (100, False)):
        path = table(tmp_path / "t.csv", "A" * 100, (k < right for k in range(100)), options="4")
        if alarm:
            with pytest.raises(
                DataError,
                match=r"(?s)guessing gives 0\.250.*(item '\d'.*){3}--below-chance-is-real",
            ):
                check_above_guessing(joined_of(path), ["b"])
        else:
            check_above_guessing(joined_of(path), ["b"])


def test_guessing_models_raise_no_alarm() -> None:
    rng = np.random.default_rng(1)
    joined = Joined()
    for model in range(30):
        guesses = rng.random(200) < 0.25
        items = [
            Imported(f"m{model}", "b", str(k), str(k), int(right), options=tuple("ABCD"))
            for k, right in enumerate(guesses)
        ]
        joined.add(f"log {model}", items)
    check_above_guessing(joined, ["b"])


def free(keys: Iterable[str], answers: Iterable[str] = (), text: str = "") -> Joined:
    """Items whose options no log lists."""
    joined, shown = Joined(), list(answers) or [""]
    joined.add(
        "log",
        (
            Imported(
                "m",
                "b",
                str(k),
                str(k),
                1,
                text=text or None,
                target=key,
                answer=shown[k % len(shown)],
            )
            for k, key in enumerate(keys)
        ),
    )
    return joined


LONG = "All four look alike, but the second follows from the first law, so (B)."
NUMBERS = [str(k) for k in range(20)]


@pytest.mark.parametrize(
    ("joined", "known"),
    [
        (free(NUMBERS), True),
        (free(["B"] * 20), False),
        (free(["(B)", "c.", "Answer: A", "D"] * 5), False),
        (free(["yes", "No.", "TRUE", "false"] * 5), False),
        (free(["B"] * 20, [LONG]), False),  # letters inside long replies: the key tells
        (free(["B"] * 3 + NUMBERS[:17]), False),  # 15 % letters among numbers: more than a tenth
        (
            free(["B"] * 2 + NUMBERS[:18]),
            True,
        ),  # 10 %: guesses are right for 5 % at most, as for free answers
        (free([""] * 20, ["(B)", "C"]), False),  # no key: the answers tell
        (free([""] * 20, ["yes", "no", "7"]), False),
        (free([""] * 20, NUMBERS), True),
        (free([""] * 20, [""]), True),  # nothing tells: a table of items and scores alone
        (
            free([""] * 20, [LONG], "Which one?\nA) one\nB) two\nC) three\n"),
            False,
        ),  # the text lists the options
        (free(["neutral", "entailment", "contradiction"] * 8), False),  # 24 items, 8 a key: labels
        (free(["neutral", "entailment", "contradiction"] * 7), True),
        (free(["0", "1", "2"] * 8), False),
    ],
)
def test_chance_is_unknown_where_keys_name_options_that_no_log_lists(
    joined: Joined, known: bool
) -> None:
    assert (unknown_chance(joined, ["b"]) == "") is known
    assert {log.name: log.passed for log in check_logs(joined, ["b"], None)}[
        "chance_known"
    ] is known
    assert all(log.passed for log in check_logs(joined, ["b"], 4))  # --options 4


@pytest.mark.parametrize(
    "text", ["\n" * 400_000, "\nA. x" * 100_000, "A. " + "x" * 400_000, " " * 400_000]
)
def test_a_hostile_text_is_looked_through_in_a_moment(text: str) -> None:
    start = time.process_time()
    assert unknown_chance(free([""], text=text), ["b"]) == ""
    assert time.process_time() - start < 2  # a pattern of squared time takes minutes


def test_an_unknown_chance_carries_no_verdict_and_options_give_it(tmp_path: Path) -> None:
    rows = "".join(f"m,{k},B,{'AB'[k % 4 > 0]}\n" for k in range(40))
    (tmp_path / "b.csv").write_text("model,item,answer,gold\n" + rows)
    for words, code, fails in (([], 5, ["chance_known"]), (["--options", "4"], 5, [])):
        run = tmp_path / f"run{len(words)}"
        assert import_logs([str(tmp_path / "b.csv"), *words, "-o", str(run)]) == 0
        (cell,) = json.loads((run / "report/verdict.json").read_text())["cells"]
        checks = {
            gate["name"]: gate["status"]
            for gate in cell["gates"]
            if gate["source"] == "the imported logs"
        }
        assert [name for name, status in checks.items() if status == "fail"] == fails and len(
            checks
        ) == 3
        assert (cell["verdict"] == "withheld") is bool(fails)
        assert gate([str(run)]) == code


def test_a_probability_mass_is_no_share_of_right_answers(shared_data: Path, tmp_path: Path) -> None:
    (path,) = (shared_data / "public_reports" / "03-lmeval-mc2-probability-mass").glob("*.jsonl")
    run = tmp_path / "run"
    assert import_logs([str(path), "--model", "m", "--benchmark", "b", "-o", str(run)]) == 0
    (cell,) = json.loads((run / "report/verdict.json").read_text())["cells"]
    failed = [gate["name"] for gate in cell["gates"] if gate["status"] == "fail"]
    assert cell["verdict"] == "withheld" and "counts_right" in failed and gate([str(run)]) == 5


@pytest.mark.parametrize(
    ("scores", "counted"),
    [
        (["1", "0", "1"], True),
        (["0.3", "0.5", "1"], True),  # of ten trials
        (["1/7", "2/9", "5/13", "1/11"], True),  # counts, whatever their n
        (["0.333", "0.667", "0.25"], True),  # of twelve trials, rounded
        (["0.4713", "0.1294", "0.8811"], False),  # F1, BLEU, probabilities
    ],
)
def test_decimals_without_a_common_number_of_trials_count_no_right_answers(
    scores: list[str], counted: bool, tmp_path: Path
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(
        "model,item,correct\n" + "".join(f"m,{k},{score}\n" for k, score in enumerate(scores))
    )
    assert {log.name: log.passed for log in check_logs(joined_of(path), ["b"], 0)}[
        "counts_right"
    ] is counted


def inspect_log(
    path: Path, samples: list[dict[str, Any]], status: str = "success", total: int | None = None
) -> Path:
    about = {
        "task": "nums",
        "model": "m",
        "dataset": {"samples": total or len(samples)},
        "config": {},
    }
    path.write_text(json.dumps({"version": 2, "status": status, "eval": about, "samples": samples}))
    return path


def sample(k: int, scores: Any, **more: Any) -> dict[str, Any]:
    return {"id": k, "epoch": 1, "input": f"Item {k}?", "target": "1", "scores": scores, **more}


def test_scorers_that_disagree_are_refused_unless_one_is_chosen_and_parts_have_names(
    tmp_path: Path,
) -> None:
    two = [sample(k, {"format": {"value": 1}, "match": {"value": "CI"[k % 2]}}) for k in range(10)]
    parts = [sample(k, {"match": {"value": {"accuracy": k % 2, "brevity": 1}}}) for k in range(10)]
    for samples, names in (
        (two, ("format", "match")),
        (parts, ("match.brevity", "match.accuracy")),
    ):
        path = inspect_log(tmp_path / "log.json", samples)
        with pytest.raises(DataError, match=r"1\.000.*0\.500|0\.500.*1\.000"):
            read_log(path, Wanted())
        for name, accuracy in zip(names, (1.0, 0.5), strict=True):
            (count,) = read_joined([read_log(path, Wanted(metric=name))])
            assert count.accuracy == accuracy
    same = [sample(k, {"a": {"value": "CI"[k % 2]}, "b": {"value": 1 - k % 2}}) for k in range(10)]
    assert read_log(inspect_log(tmp_path / "log.json", same), Wanted()).score == "a"


def test_a_scorer_that_counts_something_else_refuses_nothing(tmp_path: Path) -> None:
    """A scorer of tokens is no share of right answers: the other one is read, also where it is
    asked for by name."""
    samples = [
        sample(k, {"tokens": {"value": 100 + k}, "match": {"value": "CI"[k % 2]}})
        for k in range(10)
    ]
    path = inspect_log(tmp_path / "log.json", samples)
    for metric in ("", "match"):
        log = read_log(path, Wanted(metric=metric))
        (count,) = read_joined([log])
        assert (log.score, count.accuracy, count.items) == ("match", 0.5, 10)


def test_reductions_of_one_scorer_by_several_reducers_have_names_of_their_own(
    tmp_path: Path,
) -> None:
    """The mean of two epochs is .5 and pass_at_2 is 1: the last one was read without its name.
    Epochs share a score."""
    samples = [sample(k, None) | {"epoch": epoch} for k in range(10) for epoch in (1, 2)]
    both = {"mean": 0.5, "pass_at_2": 1.0}
    reductions = [
        {
            "scorer": "match",
            "reducer": name,
            "samples": [{"sample_id": k, "value": value} for k in range(10)],
        }
        for name, value in both.items()
    ]
    path = inspect_log(tmp_path / "log.json", samples)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"reductions": reductions}))
    with pytest.raises(DataError, match=r"match\.mean 0\.500, match\.pass_at_2 1\.000"):
        read_log(path, Wanted())
    for name, value in both.items():
        outcomes = list(read_log(path, Wanted(metric=f"match.{name}")).outcomes)
        assert len(outcomes) == 10 and {
            (outcome.right or 0) / outcome.of for outcome in outcomes
        } == {value}


def test_an_archive_without_its_header_is_no_finished_run(tmp_path: Path) -> None:
    """Inspect writes header.json when the evaluation ends; its journal has no status."""
    about = {"eval": {"task": "nums", "model": "m", "dataset": {"samples": 40}, "config": {}}}
    for name, unfinished in (
        ("header.json", ""),
        ("_journal/start.json", "1 of 40 samples, started"),
    ):
        path = tmp_path / "log.eval"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(name, json.dumps(about))
            archive.writestr(
                "samples/1_epoch_1.json", json.dumps(sample(1, {"match": {"value": "C"}}))
            )
        assert read_log(path, Wanted()).unfinished == unfinished


def test_runs_of_two_models_in_helm_are_of_one_benchmark(tmp_path: Path) -> None:
    """`gsm:model=a` has no argument before the model: each model had a benchmark of its own."""
    names = {
        "gsm:model=a_b": "gsm",
        "mmlu:subject=law,model=a_b": "mmlu:subject=law",
        "gsm:model=a_b,k=5": "gsm,k=5",
    }
    for k, (name, benchmark) in enumerate(names.items()):
        path = tmp_path / str(k)
        path.mkdir()
        state = {
            "instance": {"id": "1", "input": {"text": "q"}},
            "result": {"completions": [{"text": "a"}]},
        }
        stats = [{"instance_id": "1", "stats": [{"name": {"name": "exact_match"}, "mean": 1.0}]}]
        spec = {"name": name, "adapter_spec": {"model": "a/b"}}
        for file, value in (
            ("run_spec", spec),
            ("scenario_state", {"request_states": [state]}),
            ("per_instance_stats", stats),
        ):
            (path / f"{file}.json").write_text(json.dumps(value))
        (outcome,) = read_log(path, Wanted()).outcomes
        assert (outcome.benchmark, outcome.right) == (benchmark, 1)


def test_invalidated_samples_are_left_out_and_counted_and_nan_is_no_score(tmp_path: Path) -> None:
    samples = [sample(k, {"match": {"value": "C"}}) for k in range(6)]
    samples += [
        sample(6, {"match": {"value": float("nan")}}),
        sample(7, {"match": {"value": "I"}}, invalidation={"author": "a"}),
    ]
    log = read_log(inspect_log(tmp_path / "log.json", samples), Wanted())
    (count,) = read_joined([log])
    assert (count.items, count.unparsed, count.accuracy) == (7, 1, 1.0)
    assert log.notes[0].startswith("1 sample")


def test_a_log_that_did_not_succeed_is_no_finished_run_and_its_score_is_partial(
    tmp_path: Path, capsys: Capsys
) -> None:
    samples = [sample(k, {"match": {"value": "C"}}) | {"target": str(k)} for k in range(6)]
    path = inspect_log(tmp_path / "log.json", samples, status="cancelled", total=400)
    run = tmp_path / "run"
    assert import_logs([str(path), "-o", str(run)]) == 0
    shown = capsys.readouterr().out
    assert (
        "Partial score (6 of 400 samples, cancelled)" in shown
        and "partial: 6 of 400 samples" in shown
    )
    assert " Score 100" not in shown
    (cell,) = json.loads((run / "report/verdict.json").read_text())["cells"]
    assert (
        next(gate["name"] for gate in cell["gates"] if gate["status"] == "fail") == "log_finished"
    )
    assert (cell["verdict"], cell["grade"]) == ("withheld", "check_failed")
    assert "Partial score (6 of 400 samples, cancelled)" in (run / "report/report.html").read_text()
    assert gate([str(run)]) == 1
    whole = inspect_log(tmp_path / "whole.json", samples)
    assert import_logs([str(whole), "-o", str(tmp_path / "other")]) == 0
    assert gate([str(tmp_path / "other")]) == 5
    assert "Partial" not in capsys.readouterr().out
    with pytest.raises(ConfigError, match="stopped"):
        read_log(run, Wanted())


def test_an_unfinished_log_clears_nobody(tmp_path: Path) -> None:
    """The same answers, finished and not: everything else speaks for a clearance, or for a
    finding."""
    rng, models = np.random.default_rng(3), ("judged", "pythia", "falcon", "llama", "gemma")
    hard = {shift: rng.normal(size=300) for shift in (0, 1000)}
    right = {
        (model, shift): hard[shift] + rng.normal(size=300) < 0.4
        for model in models
        for shift in hard
    }
    for status in ("success", "error"):
        words: list[str] = []
        for part, shift in (("seen", 0), ("new", 1000)):
            words += ["--held-out"] if shift else []
            for model in models:
                values = zip(
                    range(shift, shift + 300), np.where(right[model, shift], "C", "I"), strict=True
                )
                samples = [
                    sample(k, {"match": {"value": str(value)}}) | {"target": str(k)}
                    for k, value in values
                ]
                folder = tmp_path / status / part / model
                folder.mkdir(parents=True)
                path = inspect_log(
                    folder / "log.json", samples, status if model == "judged" else "success", 400
                )
                document = json.loads(path.read_text())
                document["eval"]["model"] = model
                path.write_text(json.dumps(document))
                words.append(str(path))
        run = tmp_path / f"run-{status}"
        assert import_logs([*words, "--judge", "judged", "-o", str(run)]) == 0
        (cell,) = json.loads((run / "report/verdict.json").read_text())["cells"]
        failed = [gate["name"] for gate in cell["gates"] if gate["status"] == "fail"]
        assert ("log_finished" in failed) == (status == "error")
        assert (cell["grade"] == "check_failed") == (status == "error")
        assert (cell["without_memory"]["estimate"] is None) == (status == "error")
