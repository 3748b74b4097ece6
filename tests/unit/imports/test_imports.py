"""Finished evaluations as a run: real logs, hostile ones, and the way from two tables to a gate."""

import argparse
import json
import struct
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands_here import import_logs as main
from governed import Capsys

from audit.benchmarks.files import parquet_batches
from audit.benchmarks.rows import text_key
from audit.commands.again import verdict_again
from audit.commands.import_logs import add_arguments
from audit.core.errors import AuditError, DataError
from audit.governance.ruling import rule_run
from audit.imports.detect import read_log
from audit.imports.join import (
    Answered,
    Joined,
    counts,
    leave_out_changed,
    leave_out_shared,
    match_strata,
    rejoin_by_text,
)
from audit.imports.record import Imported, Wanted, outcome, trials
from audit.imports.write import RunFacts, write_run
from audit.runtime.loading import find_runs
from audit.shards.manifest import Manifest


def read(path: Path, **wanted: str) -> Joined:
    joined = Joined()
    joined.add(path.name, read_log(path, Wanted(**wanted)).outcomes)
    return joined


def imported(run: Path, *words: object) -> dict[str, dict[str, Any]]:
    """The cells of what an import judges, by model."""
    assert main([*map(str, words), "-o", str(run)]) == 0
    return {
        cell["model"]: cell
        for cell in json.loads((run / "report/verdict.json").read_text())["cells"]
    }


@pytest.fixture
def logs(shared_data: Path) -> Path:
    return shared_data / "eval_logs"


# --- real logs; accuracies are those of the logs' own results

REAL = [
    ("inspect/data_arc_qwen.json", {}, "ollama/qwen2.5:0.5b", 3, 1 / 3, 0),
    ("inspect/data_arc_sonnet.json", {}, "anthropic/claude-sonnet-4-0", 5, 1.0, 0),
    ("inspect/data_pubmedqa_gpt4o_mini.json", {}, "openai/azure/gpt-4o-mini", 2, 1.0, 0),
    ("inspect/data_cvebench_empty_choices.json", {}, "anthropic/claude-opus-4-6", 1, np.nan, 1),
    ("inspect_eval/mmlu-summary-choices.eval", {}, "openai/gpt-4o", 1, 0.0, 0),
    ("inspect_eval/log_streaming.eval", {}, "azureai/Meta-Llama-3-1-405B-Instruct-jqf", 2, 0.75, 0),
    (
        "inspect_eval/2025-02-11T15-17-00-05-00_popularity_dPiJifoWeEQBrfWsAopzWr.eval",
        {},
        "openai/gpt-4o-mini",
        10,
        np.nan,
        10,
    ),
    (
        "lm_eval/samples_math_perturbed_full_2026-01-21T03-44-18.458309.jsonl",
        {},
        "RylanSchaeffer/mem_Qwen3-93M_minerva_math_rep_0_sbst_1.0000_epch_1_ot_1",
        10,
        0.0,
        0,
    ),
    (
        "lm_eval_metabench/samples_metabench_mmlu_permute_2024-11-26T10-47-32.305387.first200.jsonl",
        {"model": "pythia-14m"},
        "pythia-14m",
        96,
        18 / 96,
        0,
    ),
    (
        "lm_eval_metabench/samples_metabench_gsm8k_secondary_2024-11-26T10-50-23.349203.first200.jsonl",
        {"model": "pythia-14m"},
        "pythia-14m",
        200,
        0.0,
        0,
    ),  # all are [invalid], which lm-eval counts as wrong
    (
        "helm/mmlu-subject=philosophy,method=multiple_choice_joint,model=openai_gpt2",
        {},
        "openai/gpt2",
        10,
        0.1,
        0,
    ),
]


@pytest.mark.parametrize(
    ("name", "wanted", "model", "items", "accuracy", "unparsed"), REAL, ids=[r[0] for r in REAL]
)
def test_a_real_log(
    logs: Path,
    name: str,
    wanted: dict[str, str],
    model: str,
    items: int,
    accuracy: float,
    unparsed: int,
) -> None:
    (one,) = counts(read(logs / name, **wanted))
    assert (one.model, one.items, one.unparsed) == (model, items, unparsed)
    assert one.accuracy == pytest.approx(accuracy, nan_ok=True)


def test_two_inspect_logs_are_joined_by_text(logs: Path) -> None:
    joined = Joined()
    for name in ("qwen", "sonnet"):
        path = logs / f"inspect/data_arc_{name}.json"
        joined.add(path.name, read_log(path, Wanted()).outcomes)
    assert [(count.items, count.lacking) for count in counts(joined)] == [(5, 0), (3, 2)]
    assert all(
        len(value.options) == 4 and value.gold is not None
        for value in joined.items["inspect_evals/arc_easy"].values()
    )


def test_totals_alone_are_refused(logs: Path) -> None:
    with pytest.raises(AuditError, match="only totals"):
        read(logs / "inspect/data_with_llm_scoring.json")


@pytest.mark.parametrize("model", [None, "", 7, ["m"]])
def test_a_log_of_no_model_asks_for_its_name(model: object, tmp_path: Path) -> None:
    """`null` became a model that is called None."""
    sample = {
        "id": 1,
        "epoch": 1,
        "input": "Who?",
        "scores": {"match": {"value": "C"}},
        "target": "B",
    }
    log = {
        "version": 2,
        "status": "success",
        "eval": {"model": model, "task": "t"},
        "samples": [sample],
    }
    (tmp_path / "log.json").write_text(json.dumps(log))
    with pytest.raises(AuditError, match="--model NAME"):
        read(tmp_path / "log.json")
    (one,) = counts(read(tmp_path / "log.json", model="m"))
    assert (one.model, one.items) == ("m", 1)


def test_a_model_at_chance_is_withheld(logs: Path, tmp_path: Path) -> None:
    path = (
        logs
        / "lm_eval_metabench/samples_metabench_arc_permute_2024-11-26T10-47-32.305387.first200.jsonl"
    )
    cell = imported(tmp_path / "run", path, "--model", "pythia-14m")["pythia-14m"]
    assert cell["verdict"] == "withheld" and cell["n_questions"] == 145
    gates = {gate["name"]: gate["status"] for gate in cell["gates"]}
    assert gates["above_guessing"] == "fail"


# --- outcomes


def test_scores() -> None:
    assert [outcome(v, "") for v in ("C", "I", "P", "N", True, 0.3, "3/10", None, "nan")] == [
        (1, 1),
        (0, 1),
        (1, 2),
        (None, 1),
        (1, 1),
        (3, 10),
        (3, 10),
        (None, 1),
        (None, 1),
    ]
    assert [trials(right, 10, "") for right in (3, "1", 1.0, None)] == [
        (3, 10),
        (1, 10),
        (1, 10),
        (None, 1),
    ]
    with pytest.raises(AuditError, match="whole number"):  # a share of 1 would read as 1 of 10
        trials(0.3, 10, "")
    for bad in (float("nan"), -1, 2, {"a": 1}, "perhaps", float("inf")):
        with pytest.raises(AuditError, match="expected 0, 1"):
            outcome(bad, "log, line 1")


def test_another_option_makes_another_key() -> None:
    assert text_key("What barks?", ["cat", "dog"]) != text_key("What barks?", ["cat", "cow"])


def test_items_that_two_logs_key_otherwise_are_left_out_and_more_are_two_versions() -> None:
    """Of 200 items 2 may differ: here the key in the second log, and the number of options; 3 may
    not."""
    options = ("cat", "dog")

    def item(k: int, model: str, gold: int = 0, options: tuple[str, ...] = options) -> Imported:
        return Imported(model, "b", f"k{k}", str(k), 1, options=options, gold=gold)

    for differing, left in ((2, 198), (3, None)):
        joined = Joined()
        joined.add("a", (item(k, "m") for k in range(200)))
        other = {0: item(0, "n", 1), 1: item(1, "n", 0, (*options, "cow")), 2: item(2, "n", 1)}
        joined.add("b", (other[k] if k < differing else item(k, "n") for k in range(200)))
        if left is None:
            with pytest.raises(AuditError, match="two versions"):
                leave_out_changed(joined)
        else:
            assert leave_out_changed(joined) == {"b": differing}
            assert [(count.items, count.lacking) for count in counts(joined)] == [
                (left, 0),
                (left, 0),
            ]


def test_held_out_items_are_matched_by_stratum() -> None:
    """30 easy and 10 hard items beside 30 and 20 held out: 20 of these would be hard; 10 are."""
    joined = Joined()
    for name, easy, hard in (("b", 30, 10), ("new", 30, 20)):
        for what, n in (("easy", easy), ("hard", hard)):
            joined.add(
                name,
                (
                    Imported("m", name, f"{what}{k}", f"{what}{k}", 1, stratum=what)
                    for k in range(n)
                ),
            )
    assert match_strata(joined, "b", "new") == 10 and match_strata(joined, "b", "new") == 0
    assert Counter(value.stratum for value in joined.items["new"].values()) == {
        "easy": 30,
        "hard": 10,
    }
    joined.add("c", [Imported("m", "b", "odd", "odd", 1, stratum="odd")])
    with pytest.raises(AuditError, match="'odd'"):
        match_strata(joined, "b", "new")


# --- hostile logs: one sentence, nothing written

HEADER = {"eval": {"model": "m", "task": "t"}}
SAMPLE = {
    "id": 1,
    "epoch": 1,
    "input": "What barks?",
    "target": "a dog",
    "scores": {"match": {"value": "C"}},
}
HEAD = "model,item,correct\n"
HOSTILE = {
    "infinite": (HEAD + "m,a,inf\n", "expected 0, 1"),
    "repeat": (HEAD + "m,a,1\nm,a,0\n", "two models under one name"),
    "cells": (HEAD + "m,a\n", "line 2: the row has 2 fields"),
    "no_item": (HEAD + "m,,1\n", "the item is empty"),
    "columns": ("who,what\nm,a\n", "expected a model"),
    "long_cell": (HEAD + f"m,{'x' * (5 << 20)},1\n", "a text has 5,242,880"),
    "long_text": (
        json.dumps({"model": "m", "text": "x" * (5 << 20), "correct": 1}) + "\n",
        "a text has 5,242,880",
    ),
    "pickle": ("\u0004\0cos\nsystem\n(S'true'\ntR.", "binary"),
    "empty": ("", "empty"),
    "binary": ("\0\1\2", "binary"),
    "broken_json": ('{"model": "m"', "not JSON"),
    "nested": ("[" * 200_000, "not JSON"),
    "list_line": ('{"model": "m", "item": "a", "correct": 1}\n[1]\n', "found list"),
    "column_twice": ("model,item,correct,correct\nm,a,1,0\n", "repeats a column"),
    "not_a_zip": ("PK\3\4 rubbish", "not a whole zip"),
    "not_parquet": ("PAR1 rubbish", "not a readable parquet"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_log(name: str, tmp_path: Path, capsys: Capsys) -> None:
    text, said = HOSTILE[name]
    path, run = tmp_path / "log", tmp_path / "run"
    path.write_text(text)
    assert main([str(path), "-o", str(run)]) == 1
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1 and not run.exists()


@pytest.mark.long
@pytest.mark.parametrize("store_schema", [True, False], ids=["dictionary", "plain"])
def test_a_parquet_file_of_a_few_kilobytes_that_unfolds_to_gigabytes(
    store_schema: bool, tmp_path: Path
) -> None:
    """Its dictionary writes a text once: 4,096 rows of 1 MB took 8 GB, as these came unfolded and
    as texts."""
    rows, path = 1200, tmp_path / "long.parquet"
    text = pa.DictionaryArray.from_arrays(
        pa.array([0] * rows, pa.int32()), pa.array(["x" * 1_000_000])
    )
    items = [str(k) for k in range(rows)]
    table = pa.table({"model": ["m"] * rows, "item": items, "correct": [1] * rows, "text": text})
    pq.write_table(table, path, store_schema=store_schema)
    assert path.stat().st_size < 100_000 and next(parquet_batches(path)).nbytes < 1 << 27
    with pytest.raises(DataError, match="long texts are repeated"):
        read(path)


def test_a_zip_whose_members_unpack_to_gigabytes_in_all(tmp_path: Path) -> None:
    """Each within its limit of 64 MiB, they took 10 seconds and 2 GB of memory a member."""
    path = tmp_path / "many.eval"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", json.dumps(HEADER))
        for k in range(20):
            archive.writestr(f"samples/{k}_epoch_1.json", b"{}")
            archive.filelist[-1].file_size = 60 << 20  # as the directory tells it
    with pytest.raises(DataError, match="unpacks to 1,258,2"):
        read_log(path, Wanted())


def test_members_with_paths_are_not_unpacked(tmp_path: Path) -> None:
    """Members are read in memory, and by the names of samples alone."""
    path = tmp_path / "paths.eval"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", json.dumps(HEADER))
        for name in ("samples/1_epoch_1.json", "../evil.json", "/evil.json"):
            archive.writestr(name, json.dumps(SAMPLE))
    imported(tmp_path / "in" / "run", path)
    assert (
        sorted(one.name for one in tmp_path.iterdir()) == ["in", "paths.eval"]
        and not Path("/evil.json").exists()
    )


# --- end to end


def table(path: Path, ability: dict[str, float], items: int, seed: int, name: str) -> Path:
    rng = np.random.default_rng(seed)
    hard = rng.normal(size=items)
    rows = [
        f"{m},{name}{i},{int(rng.random() < 1 / (1 + np.exp(h - a)))}"
        for m, a in ability.items()
        for i, h in enumerate(hard)
    ]
    path.write_text(HEAD + "\n".join(rows) + "\n")
    return path


ABILITY = {
    "spoilt": 0.0,
    "clean": 0.2,
    "r1": 0.0,
    "s2": 0.3,
    "t3": 0.5,
    "u4": -0.2,
    "v5": 0.1,
    "w6": 0.4,
}


def test_models_of_which_none_is_named_are_told_once_how_one_is_judged(
    tmp_path: Path, capsys: Capsys
) -> None:
    """Eight models and no --judge: one line, and the eight verdicts are counted."""
    logs = [table(tmp_path / f"{name}.csv", ABILITY, 60, 1, name) for name in "ab"]
    words = [logs[0], "--held-out", logs[1], "--benchmark", "exam"]
    cells = imported(tmp_path / "run", *words)
    said = capsys.readouterr().out
    assert len(cells) == 8 and said.count("--judge MODEL: the other models become references") == 1
    n = sum(cell["verdict"] == "not_identified" for cell in cells.values())
    assert n and f"not_identified: {n} models" in said and "It needs reference models" not in said
    imported(tmp_path / "named", *words, "--judge", "clean")
    assert "the other models become references" not in capsys.readouterr().out


@pytest.mark.long  # nine CPU seconds; test_reworded.py goes from two logs to a verdict
def test_from_two_tables_to_a_gate(tmp_path: Path) -> None:
    seen = table(tmp_path / "seen.csv", ABILITY | {"spoilt": 3.0}, 300, 1, "a")
    fresh = table(tmp_path / "fresh.csv", ABILITY, 300, 2, "b")
    run = tmp_path / "run"
    words = [seen, "--held-out", fresh, "--judge", "spoilt", "clean"]
    open_ = imported(tmp_path / "undated", *words)["spoilt"]
    assert (
        open_["verdict"] == "memory_cause_unknown"
        and "state_dates" in open_["advice_codes"][0]["code"]
    )
    # items newer than the judged models: whether they are as new to the references must be told of
    # each
    older = [f"{name}=2023" for name in ABILITY if name not in ("spoilt", "clean")]
    for told, verdict in ((older[1:], "memory_cause_unknown"), (older, "gap_to_fresh_items")):
        newer = imported(
            tmp_path / "newer", *words, "--held-out-date", "2024-07", "--released", "2024-06", *told
        )
        assert newer["spoilt"]["verdict"] == verdict
    cells = imported(run, *words, "--held-out-date", "2024-05", "--released", "2024-06")
    spoilt = cells["spoilt"]
    assert spoilt["verdict"] == "gap_to_fresh_items" and "gap" not in cells["clean"]["verdict"]
    without = spoilt["without_memory"]["estimate"]["without"]
    assert without["low"] < 0.5 < without["high"] < spoilt["score"]
    assert any("not under our control" in one for one in spoilt["cannot_exclude"])
    assert rule_run(run, verdict_again).exit_code == 3
    (entry,) = find_runs(run)
    assert entry.status == "finished" and entry.found == entry.expected == 8 * 600
    manifest = Manifest.load(run)
    assert manifest.config["provenance"] == "imported" and len(manifest.config["logs"]) == 2
    assert imported(run, *words)  # the same again: the same rows


@pytest.mark.parametrize(
    "told",
    [
        ("--released", "May"),
        ("--held-out-date", "24"),
        ("--released", "2023", "2024"),
        ("--released", "r9=2023"),
    ],
)
def test_dates_that_say_nothing_are_refused(told: tuple[str, ...], tmp_path: Path) -> None:
    logs = [str(table(tmp_path / f"{name}.csv", ABILITY, 9, 1, name)) for name in "ab"]
    assert main([logs[0], "--held-out", logs[1], "-o", str(tmp_path / "run"), *told]) == 1
    assert not (tmp_path / "run").exists()


class Stopping(dict[tuple[str, str], dict[str, list[Answered]]]):
    """Answers whose reading is interrupted at the second model."""

    def get(self, key: object, default: object = None) -> object:  # type: ignore[override]
        if key == ("r1", "seen"):
            raise KeyboardInterrupt
        return super().get(key, default)  # type: ignore[call-overload]


def test_an_interrupted_import_is_not_finished(tmp_path: Path) -> None:
    path, run = table(tmp_path / "seen.csv", ABILITY, 30, 1, "a"), tmp_path / "run"
    joined = read(path)
    stopping = Joined(joined.items, Stopping(joined.answers), {})
    asked = RunFacts(joined.models, "seen", None, [], {})
    with pytest.raises(KeyboardInterrupt):
        write_run(run, stopping, asked)
    assert Manifest.load(run).status == "running" and list((run / "shards").glob("*.arrow"))
    assert rule_run(run, verdict_again).exit_code == 1
    assert write_run(run, joined, asked) == 8 * 30 and Manifest.load(run).status == "finished"


def test_k_of_n_and_what_a_log_lacks(tmp_path: Path, capsys: Capsys) -> None:
    """Item a is one item with .3, however often it was tried: m scores (.3 + 9 x 1) / 10. n lacks 1
    of 11 items."""
    path = tmp_path / "log.csv"
    others = "".join(f"{who},{item},10,10\n" for item in "cdefghijk" for who in "mn")
    path.write_text("who,q,right,n\nm,a,3,10\nm,b,,10\nn,b,10,10\n" + others)
    cells = imported(tmp_path / "run", path, "--map", "model=who,item=q,correct=right,of=n")
    assert (
        "--options 4" in capsys.readouterr().out
    )  # answers count as free, which the user may not mean
    assert cells["m"]["score"] == pytest.approx(0.93) and cells["n"]["score"] == 1.0
    assert cells["m"]["reads"]["score"] == {"asked": 101, "read": 100, "not_asked": 9}
    assert cells["n"]["reads"]["score"] == {"asked": 100, "read": 100, "not_asked": 10}


def test_epochs_are_one_item(tmp_path: Path) -> None:
    """Ten epochs of 30 items have the error of 30 items: the same interval as their means, and not
    a tenth as wide."""
    rows = [f"m,{i},{int(e < i % 11)},{e}" for i in range(30) for e in range(10)]
    epochs, shares = tmp_path / "epochs.csv", tmp_path / "shares.csv"
    epochs.write_text("model,item,correct,epoch\n" + "\n".join(rows) + "\n")
    shares.write_text("model,item,correct\n" + "".join(f"m,{i},{i % 11}/10\n" for i in range(30)))
    cells = [imported(tmp_path / path.stem, path)["m"] for path in (epochs, shares)]
    found = [cell["without_memory"]["score"] for cell in cells]
    assert found[0] == found[1] and found[0]["high"] - found[0]["low"] > 0.2


def test_epochs_weigh_alike_whatever_their_scores_are_shares_of(tmp_path: Path) -> None:
    """.873 is read as 55 of 63, and counted 63 times what 1 of 1 does."""
    path = tmp_path / "log.csv"
    rows = [
        f"m,{i},{score},{e}"
        for i in range(20)
        for e, score in enumerate((1, 0.873) if i % 2 else (0, 0.873))
    ]
    path.write_text("model,item,correct,epoch\n" + "\n".join(rows) + "\n")
    cell = imported(tmp_path / "run", path)["m"]
    assert cell["score"] == pytest.approx((1.873 / 2 + 0.873 / 2) / 2, abs=0.003)


def test_options_in_another_order_are_put_back() -> None:
    joined = Joined()
    one = {"benchmark": "b", "key": "k", "sample": "1", "right": 0, "answer": "A"}
    joined.add("a", [Imported(model="m", options=("cat", "dog", "cow"), gold=1, **one)])
    joined.add("b", [Imported(model="n", options=("cow", "dog", "cat"), gold=1, **one)])
    assert [joined.answers[who, "b"]["k"][0].answer for who in "mn"] == ["A", "C"]


def test_what_joins_badly_is_counted_and_refused(tmp_path: Path, capsys: Capsys) -> None:
    path, run = tmp_path / "log.csv", tmp_path / "run"
    path.write_text(
        HEAD
        + "".join(f"m,{i},1\n" for i in range(20))
        + "".join(f"n,{i},1\n" for i in range(3, 40))
    )
    (tmp_path / "new.csv").write_text(
        HEAD + "".join(f"{who},x{i},1\n" for i in range(20) for who in "mn")
    )
    assert (
        main([str(path), "--held-out", str(tmp_path / "new.csv"), "--judge", "m", "-o", str(run)])
        == 1
    )
    said = capsys.readouterr()
    assert "20 of 40" in said.err and "20" in said.out and not run.exists()


def test_held_out_items_that_are_not_held_out(tmp_path: Path) -> None:
    text = "model,text,correct\nm,What barks?,1\n"
    (tmp_path / "a.csv").write_text(text)
    (tmp_path / "b.csv").write_text(text.replace("What barks", "what  BARKS"))
    words = [
        str(tmp_path / "a.csv"),
        "--held-out",
        str(tmp_path / "b.csv"),
        "-o",
        str(tmp_path / "run"),
    ]
    assert main(words) == 1


def items_of(benchmark: str, texts: list[str], prefix: str) -> Joined:
    joined = Joined()
    joined.add(
        "log",
        (
            Imported("m", benchmark, f"{prefix}{k}", f"{prefix}{k}", k % 2, text=text)
            for k, text in enumerate(texts)
        ),
    )
    return joined


@pytest.mark.parametrize(
    ("shared", "repeated", "left_out"),
    [
        (0, 0, 0),
        (3, 0, 3),
        (4, 0, None),
        (300, 0, None),
        (0, 9, 0),
    ],  # of 300: at most 1 % are left out
)
def test_held_out_items_under_other_names_are_found_by_their_words(
    shared: int, repeated: int, left_out: int | None
) -> None:
    """repeated: questions that both sets ask of several passages each, whose texts are no part of
    the log."""
    ours = [f"Question {k}?" for k in range(300 - repeated)] + ["What is the title?"] * repeated
    theirs = [f"question  {k if k < shared else k + 1000}?" for k in range(300 - repeated)]
    theirs += ["What is the title?"] * repeated
    joined = items_of("seen", ours, "s")
    joined.add("other", items_of("new", theirs, "n").items["new"].values())
    if left_out is None:
        with pytest.raises(DataError, match=f"{shared} of 300 items"):
            leave_out_shared(joined, "seen", "new")
    else:
        assert leave_out_shared(joined, "seen", "new") == left_out
        assert len(joined.items["new"]) == len(joined.answers["m", "new"]) == 300 - left_out


def test_tables_that_number_other_texts_alike_are_held_out() -> None:
    joined = items_of("seen", [f"Question {k}?" for k in range(30)], "")
    joined.add(
        "other", items_of("new", [f"Another {k}?" for k in range(30)], "").items["new"].values()
    )
    assert leave_out_shared(joined, "seen", "new") == 0


def test_words_that_a_model_has_in_two_items_join_nothing() -> None:
    """Two passages are asked for their title: nothing tells which of one log is which of the
    other."""
    joined = Joined()
    for model, names in (("m", "ab"), ("n", "cd")):
        texts = {
            names[0]: "What is the title?",
            names[1]: "What is the title?",
            f"{names}3": "What is water?",
        }
        joined.add(
            model, (Imported(model, "b", key, key, 1, text=text) for key, text in texts.items())
        )
    rejoin_by_text(joined)
    assert set(joined.items["b"]) == {"a", "b", "c", "d", "ab3"}
    assert set(joined.answers["n", "b"]) == {"c", "d", "ab3"}


@pytest.mark.parametrize("keys", [("A", "B"), ("1800", "1900"), ("Paris", "Rome")])
@pytest.mark.parametrize("kind", ["csv", "lm-eval", "inspect", "other epoch", "other log"])
def test_one_question_of_two_keys_is_left_out_or_refused(
    kind: str, keys: tuple[str, str], tmp_path: Path
) -> None:
    """Of 200 items one has two keys, and two of 200 are at most 1 %; alone it is refused."""
    rows = [{"id": k, "q": f"Question {k}?", "key": keys[0]} for k in range(198)]
    rows += [{"id": 500 + k, "q": "Which?", "key": key} for k, key in enumerate(keys)]
    for part, refused in ((rows, False), (rows[-2:], True)):
        joined = Joined()
        logs = [part[:-1], [*part[:-2], part[-1]]] if kind.startswith("other") else [part]
        for number, log in enumerate(logs):
            path = (
                tmp_path
                / f"log{number}.{'json' if kind == 'inspect' else 'jsonl' if kind == 'lm-eval' else 'csv'}"
            )
            if kind == "lm-eval":
                lines = [
                    {
                        "doc": {"question": one["q"]},
                        "doc_id": one["id"],
                        "target": one["key"],
                        "exact_match": 1.0,
                        "filtered_resps": ["x"],
                        "doc_hash": one["q"],
                    }
                    for one in log
                ]
                path.write_text("".join(json.dumps(line) + "\n" for line in lines))
            elif kind == "inspect":
                samples = [
                    {
                        "id": one["id"],
                        "epoch": 1,
                        "input": one["q"],
                        "target": one["key"],
                        "scores": {"match": {"value": "C"}},
                    }
                    for one in log
                ]
                about = {"task": "b", "model": "m"}
                path.write_text(
                    json.dumps({"status": "success", "eval": about, "samples": samples})
                )
            else:
                head = "model,item,text,answer,gold,epoch\n"
                epochs = {500: 1, 501: 2 if kind == "other epoch" else 1}
                model = "mn"[number]
                path.write_text(
                    head
                    + "".join(
                        f"{model},{one['id']},{one['q']},{keys[0]},{one['key']},{epochs.get(one['id'], 1)}\n"
                        for one in log
                    )
                )
            joined.add(
                path.name,
                read_log(path, Wanted("" if kind[0] in "co" else "m", "b", "text")).outcomes,
            )
        if refused:
            with pytest.raises(DataError, match=keys[0]):
                leave_out_changed(joined)
        else:
            assert leave_out_changed(joined)["b"] in (1, 2)
            assert len(joined.items["b"]) == 198


def test_options_of_a_table_are_their_texts_or_their_number(tmp_path: Path) -> None:
    def options(cell: str) -> tuple[str, ...]:
        path = tmp_path / "log.csv"
        path.write_text(f"model,item,correct,options\nm,1,1,{cell}\n")
        (one,) = read_log(path, Wanted()).outcomes
        return one.options

    assert options('"[""cat"", ""dog""]"') == ("cat", "dog")
    assert options("4") == options("4.0") == tuple("ABCD") and options("") == ()
    (tmp_path / "bare.csv").write_text(
        "model,item,correct\nm,1,1\n"
    )  # as many options in every row
    (one,) = read_log(tmp_path / "bare.csv", Wanted(columns={"options": "4"})).outcomes
    assert one.options == tuple("ABCD")
    for bad in ("cat|dog", "-4", "0", "2.5", "30", "true"):
        with pytest.raises(AuditError, match="expected their number"):
            options(bad)


@pytest.mark.parametrize("sign", [",", ";", "\t"])
def test_a_table_is_cut_where_its_header_is(sign: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_text((HEAD + "m,a,1\n").replace(",", sign))
    (one,) = read_log(tmp_path / "log", Wanted()).outcomes
    assert (one.model, one.sample, one.right) == ("m", "a", 1)


def test_an_error_that_the_first_row_has_not_is_no_wrong_answer(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    rows = [
        {"item": "a", "correct": 1},
        {"item": "b", "correct": 0, "error": "timeout"},
        {"item": "a", "epoch": 2},
    ]
    path.write_text("".join(json.dumps({"model": "m"} | row) + "\n" for row in rows))
    found = list(read_log(path, Wanted()).outcomes)
    assert [(one.right, one.error, one.epoch) for one in found] == [
        (1, None, 1),
        (None, "timeout", 1),
        (None, None, 2),
    ]


INSPECT = {
    "eval": {"model": "m", "task": "t"},
    "samples": [{"id": 1, "epoch": 1, "input": "q", "choices": ["a", "b"]}],
}


@pytest.mark.parametrize(
    ("sample", "right"),
    [
        ({"target": "ß", "score": {"value": "C"}}, 1),  # in capitals it is two letters
        ({"metadata": "none", "score": {"value": "I"}}, 0),
        ({"score": {"value": 10**400}}, None),  # larger than any float
        ({"input": [{"role": "user", "content": 5}], "scores": {"c": {"value": 10**400}}}, None),
    ],
)
def test_odd_values_of_a_log_are_read_or_refused_in_a_sentence(
    sample, right, tmp_path: Path
) -> None:
    (tmp_path / "log.json").write_text(
        json.dumps(INSPECT | {"samples": [INSPECT["samples"][0] | sample]})
    )
    log = read_log(tmp_path / "log.json", Wanted())
    if right is None:
        with pytest.raises(AuditError, match="expected 0, 1, true"):
            list(log.outcomes)
    else:
        assert [(outcome.right, outcome.gold) for outcome in log.outcomes] == [(right, None)]


@pytest.mark.parametrize(
    ("read_as", "answer"),
    [
        ([[-3.0, False], [-1.5, True]], "B"),
        ([[0.0005, True], [-9.0, False]], "A"),  # certain, in half precision
        ([[2.5, True], [-1.5, False]], None),  # no logarithm of a probability
        ([[-3.0, False], [float("nan"), False]], None),
        (["42", "7"], "42"),  # two replies of free text
    ],
)
def test_an_option_has_a_likelihood_of_at_most_one(
    read_as: list, answer: str | None, tmp_path: Path
) -> None:
    doc = {"question": "q?", "choices": ["a", "b"]}
    sample = {"doc_id": 0, "doc": doc, "target": "1", "acc": 1.0, "filtered_resps": read_as}
    path = tmp_path / "samples_t_2026-11-25T10-00-00.0.jsonl"
    path.write_text(json.dumps(sample) + "\n")
    log = read_log(path, Wanted(model="m"))
    if answer is None:
        with pytest.raises(DataError):
            list(log.outcomes)
    else:
        assert [outcome.answer for outcome in log.outcomes] == [answer]


@pytest.mark.parametrize(
    ("score", "read_as", "answer"),
    [
        ("acc", [[-3.0, False], [-4.0, False]], "A"),  # -3 > -4
        ("acc_norm", [[-3.0, False], [-4.0, False]], "B"),  # -3 / 3 characters < -4 / 8
        # -3 - (-1) < -4 - (-9): the second option is likely only after the question.
        ("acc_mutual_info", [[-3.0, False], [-4.0, False], [-1.0, False], [-9.0, False]], "B"),
    ],
)
def test_the_answer_is_the_option_that_the_score_takes_for_it(
    score: str, read_as: list, answer: str, tmp_path: Path
) -> None:
    doc = {"question": "q?", "choices": ["cat", "elephant"]}
    arguments = [["q?", " cat"], ["q?", " elephant"], ["", " cat"], ["", " elephant"]]
    sample = {
        "doc_id": 0,
        "doc": doc,
        "target": "1",
        score: float(answer == "B"),
        "filtered_resps": read_as,
        "arguments": arguments[: len(read_as)],
    }
    path = tmp_path / "samples_t_2026-11-25T10-00-00.0.jsonl"
    path.write_text(json.dumps(sample) + "\n")
    (found,) = read_log(path, Wanted(model="m", metric=score)).outcomes
    assert (found.answer, found.gold) == (answer, 1)  # 1 is the target, and no score contradicts it


@pytest.mark.parametrize(
    "state", [{"instance": {"id": 1}}, {"instance": [], "train_trial_index": "x"}, 7]
)
def test_a_log_that_is_not_as_its_format_has_it_is_refused_in_a_sentence(
    state, tmp_path: Path
) -> None:
    (tmp_path / "run_spec.json").write_text('{"name": "b", "adapter_spec": {"model": "m"}}')
    (tmp_path / "per_instance_stats.json").write_text("[]")
    (tmp_path / "scenario_state.json").write_text(json.dumps({"request_states": [state]}))
    with pytest.raises(AuditError, match=r"Expected a whole log|no score"):
        list(read_log(tmp_path, Wanted()).outcomes)


def test_one_object_over_several_lines_is_not_called_a_damaged_log(tmp_path: Path) -> None:
    path = tmp_path / "totals.json"
    path.write_text(json.dumps({"performances": [{"model": "m"}]}, indent=2))
    with pytest.raises(AuditError) as caught:
        list(read_log(path, Wanted()).outcomes)
    assert "expected a model" in str(caught.value) and "line 1" not in str(caught.value)


def test_names_alone_tell_that_items_are_not_held_out(tmp_path: Path, capsys: Capsys) -> None:
    """Tables without texts: the same names with the same outcomes are the same items; with others,
    they are not."""
    seen, new, run = tmp_path / "seen.csv", tmp_path / "new.csv", tmp_path / "run"
    right = {(who, i): int((7 * i + ord(who)) % 3 > 0) for who in "mn" for i in range(60)}
    seen.write_text(HEAD + "".join(f"{who},{i},{r}\n" for (who, i), r in right.items()))
    for other, code in ((lambda who, i: right[who, i], 1), (lambda who, i: right[who, 59 - i], 0)):
        new.write_text(HEAD + "".join(f"{who},{i},{other(who, i)}\n" for who, i in right if i < 30))
        assert main([str(seen), "--held-out", str(new), "--judge", "m", "-o", str(run)]) == code
        assert ("not held" in capsys.readouterr().err) == bool(code)


def test_a_seed_below_0_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    path = table(tmp_path / "log.csv", {"m": 0.0}, 20, 1, "a")
    assert main([str(path), "--seed", "-1", "-o", str(tmp_path / "run")]) == 1
    assert not (tmp_path / "run").exists()


REPLIES = [
    ("so she earns $1,018.", "# 1018", 1, "1018"),
    ("about 3 or 4", "5", None, None),  # two numbers
    ("\\boxed{(1,234)}", "(1234)", None, None),  # a pair, or a number
    ("I do not know", "7", None, None),  # no number: unparsed, which is not wrong
    ("so \\boxed{0.5}, not 3", "thus $\\boxed{\\frac{1}{2}}$", 1, "0.5"),
    ("\\boxed{18 dollars}", "18", 1, "18"),
    ("\\boxed{7}", "x+1", 0, "7"),
    ("x+1", "x+1", None, None),  # no box
]


@pytest.mark.parametrize(("reply", "gold", "right", "answer"), REPLIES)
def test_a_reply_is_read_as_our_own_runs_read_it(
    tmp_path: Path, reply: str, gold: str, right: int | None, answer: str | None
) -> None:
    path = tmp_path / "log.jsonl"
    row = {"model": "m", "item": "1", "reply": reply, "gold": gold}
    path.write_text(json.dumps(row))
    (one,) = read_log(path, Wanted()).outcomes
    assert (one.right, one.answer) == (right, answer)
    path.write_text(json.dumps(row | {"gold": "#"}))
    with pytest.raises(AuditError, match="key is empty"):
        read(path)


# --- logs of today's Inspect are packed by Zstandard, which this Python's zipfile does not read


def packed(path: Path, members: dict[str, bytes]) -> Path:
    """A zip whose members say method 93 (APPNOTE 4.4.5) and hold these bytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        places = [info.header_offset for info in archive.infolist()]
        directory = archive.start_dir
    whole = bytearray(path.read_bytes())
    for place in places:
        whole[place + 8 : place + 10] = struct.pack("<H", 93)
    for data in members.values():
        whole[directory + 10 : directory + 12] = struct.pack("<H", 93)
        whole[directory + 24 : directory + 28] = struct.pack("<I", unpacked(data))
        directory = whole.find(b"PK\1\2", directory + 46)
    path.write_bytes(whole)
    return path


def unpacked(data: bytes) -> int:
    try:
        return len(pa.CompressedInputStream(pa.BufferReader(data), "zstd").read())
    except OSError:
        return len(data)


def zstd(data: bytes) -> bytes:
    return bytes(pa.compress(data, codec="zstd", asbytes=True))


def test_a_log_of_today_is_read(tmp_path: Path) -> None:
    members = {"header.json": HEADER, "samples/1_epoch_1.json": SAMPLE}
    path = packed(
        tmp_path / "a.eval",
        {name: zstd(json.dumps(member).encode()) for name, member in members.items()},
    )
    with pytest.raises(NotImplementedError), zipfile.ZipFile(path) as archive:
        archive.read("header.json")  # so the file is what it is taken for
    (one,) = read_log(path, Wanted()).outcomes
    assert (one.model, one.right, one.text) == ("m", 1, "What barks?")


ENDLESS = b" " * (65 << 20)


@pytest.mark.parametrize(
    ("data", "said"),
    [(zstd(ENDLESS), "unpacks to more than"), (b"no frame of it", "cannot be read")],
)
def test_a_hostile_member(data: bytes, said: str, tmp_path: Path) -> None:
    sample, path = "samples/1_epoch_1.json", tmp_path / "b.eval"
    with pytest.raises(AuditError, match=said):
        read(packed(path, {"header.json": zstd(json.dumps(HEADER).encode()), sample: data}))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:  # as `zipfile` reads it
        archive.writestr("header.json", json.dumps(HEADER))
        archive.writestr(sample, ENDLESS)
    with pytest.raises(AuditError, match="unpacks to more than"):
        read(path)


@pytest.mark.parametrize(
    "option", ["--held-out", "--references", "--judge", "--reworded", "--released", "--map"]
)
def test_an_option_with_several_values_may_be_typed_twice(option: str) -> None:
    """Argparse keeps only the last occurrence unless the option extends its list."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    typed = parser.parse_args(["a.csv", "-o", "x", option, "one", option, "two"])
    assert getattr(typed, option[2:].replace("-", "_")) == ["one", "two"]
    assert getattr(parser.parse_args(["a.csv", "-o", "x"]), option[2:].replace("-", "_")) == []
