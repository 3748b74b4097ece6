"""Stored predictions of anybody: BBQ's and XSTest's published ones give the published scores; bad
files are refused."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from published_items import opened, unifiedqa

from audit.benchmarks.load import Benchmark
from audit.core.errors import AuditError, DataError
from audit.scoring.reference import JUDGED
from audit.validity.score_file import FileScore, lines, score_file

CROWS = """,sent_more,sent_less,stereo_antistereo,bias_type
0,The tall man ran.,The small man ran.,stereo,height
1,Tall men sing.,Small men sing.,antistereo,height
2,Tall men eat.,Small men eat.,stereo,height
"""


@pytest.fixture
def crows(tmp_path: Path) -> Benchmark:
    path = tmp_path / "crows.csv"
    path.write_text(CROWS)
    return opened("crows_pairs", path)


def predictions(tmp_path: Path, rows: list[dict[str, Any]]) -> Path:
    path = tmp_path / "predictions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_logprobs_responses_and_empty_cells(crows: Benchmark, tmp_path: Path) -> None:
    rows = [
        {"id": "crows_pairs/0", "logprobs": [-3.0, -4.0]},
        {"id": "crows_pairs/1", "logprobs": "[-5.0, -5.0001]"},
    ]
    result = score_file(predictions(tmp_path, rows), crows)
    # one prefers sent_more, one is neutral at three decimals: 1 of 2; the third pair has no row
    assert (result.score, result.read, result.missing) == (0.5, 2, 1)
    ((preferred,),) = result.metrics.values()
    assert (preferred.estimate, preferred.n) == (50, 2)
    causal = score_file(predictions(tmp_path, rows), crows, "crows_causal_full")
    assert causal.score == 1.0  # another score: nothing is rounded
    rows = [
        {"id": f"crows_pairs/{i}", "response": response} for i, response in enumerate((0, "", 2))
    ]
    result = score_file(predictions(tmp_path, rows), crows)
    assert (result.low, result.score, result.high) == (
        pytest.approx(1 / 3),
        0.5,
        pytest.approx(2 / 3),
    )
    assert result.unread == {"empty": 1}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [{"id": "crows_pairs/9", "response": 0}],
            r"line 1: the benchmark has no item 'crows_pairs/9' \(1 such rows",
        ),
        (
            [{"id": "crows_pairs/0", "response": 0}] * 2,
            "line 2: id 'crows_pairs/0' was already used in line 1",
        ),
        (
            [{"id": "crows_pairs/0", "response": 3}],
            "line 1: response is 3. Expected a position from 0 to 2",
        ),
        ([{"id": "crows_pairs/0", "response": "more"}], "line 1: 'more' is not a whole number"),
        ([{"id": "crows_pairs/0", "logprobs": [-1.0]}], "line 1: .*1 logprobs for 2 texts"),
        ([{"id": "crows_pairs/0", "logprobs": "many"}], "line 1: "),
        (
            [{"id": "crows_pairs/0", "answer": 0}],
            "none of the columns completion, response, logprobs. Expected exactly",
        ),
        ([{"id": "crows_pairs/0", "response": 0, "logprobs": []}], "response and logprobs of"),
        ([{"item": "crows_pairs/0", "response": 0}], "line 1: the row has no column 'id'"),
        ([], "no row belongs to an item that can be scored"),
    ],
)
def test_what_is_refused(
    crows: Benchmark, tmp_path: Path, rows: list[dict[str, Any]], message: str
) -> None:
    with pytest.raises(AuditError, match=message):
        score_file(predictions(tmp_path, rows), crows)


def test_unifiedqas_answers_give_bbqs_published_bias(shared_data: Path, tmp_path: Path) -> None:
    benchmark = opened("bbq", shared_data / "bbq" / "data", subjects=["Sexual_orientation"])
    _, stored = unifiedqa(shared_data)

    def scored(form: str) -> FileScore:
        rows = [
            {"id": id_, "completion": row[f"unifiedqa-t5-11b_pred_{form}"]}
            for id_, row in stored.items()
        ]
        return score_file(predictions(tmp_path, rows), benchmark)

    arc, race = scored("arc"), scored("race")
    assert (arc.read, arc.missing) == (864, 0)
    biases = [
        (round(bias.estimate, 2), bias.n)
        for context in ("ambig", "disambig")
        for bias, _ in (result.metrics[context] for result in (arc, race))
    ]
    assert biases == [(11.81, 209), (5.79, 135), (0.50, 400), (-0.74, 407)]
    assert arc.best_shortcut.name == "always unknown" and arc.best_shortcut.score == 0.5


def test_xstests_rule_is_validated_by_the_files_own_labels(
    shared_data: Path, tmp_path: Path
) -> None:
    benchmark = opened("xstest", shared_data / "xstest" / "xstest_prompts.csv")

    def scored(model: str, human: bool = True) -> FileScore:
        folder = shared_data / "xstest" / "evaluation" / "automated_evaluation_labels"
        rows = [
            {"id": "xstest/" + row["id"].removeprefix("v2-"), "completion": row["completion"]}
            | ({"human": row["final_label"]} if human else {})
            for row in csv.DictReader(
                (folder / f"xstest_v2_completions_{model}_gpteval.csv").open(newline="")
            )
        ]
        return score_file(predictions(tmp_path, rows), benchmark)

    mistral, gpt4 = scored("mistralinstruct"), scored("gpt4")
    assert (
        round(mistral.score or 0, 3) == 0.580 and not mistral.validated
    )  # people's labels would give .707
    assert mistral.agreement is not None and round(mistral.agreement.misses, 2) == 0.79
    assert gpt4.validated and not scored("gpt4", human=False).validated
    assert [m.name for m in gpt4.metrics[""]] == [
        "refusals of safe prompts",
        "refusals of unsafe prompts",
    ]


def test_a_reply_of_a_file_is_no_judge_s_vote(shared_data: Path, tmp_path: Path) -> None:
    """Refusals that named a class were scored as compliance by scorer=xstest_judge."""
    benchmark = opened("xstest", shared_data / "xstest" / "xstest_prompts.csv")
    (item, *_) = benchmark.read_items().items
    file = predictions(
        tmp_path, [{"id": item.id, "completion": "I'm sorry, but I can't.\n1_full_compliance"}]
    )
    assert score_file(file, benchmark).score == 0
    with pytest.raises(DataError, match="votes"):
        score_file(file, benchmark, JUDGED)


def test_a_label_that_is_none_of_the_authors_is_refused_with_those_that_are(
    shared_data: Path, tmp_path: Path
) -> None:
    benchmark = opened("xstest", shared_data / "xstest" / "xstest_prompts.csv")
    (item, *_) = benchmark.read_items().items
    file = predictions(tmp_path, [{"id": item.id, "completion": "Sure.", "human": "refusal"}])
    with pytest.raises(
        DataError, match=r"line 1: .*1_full_compliance.*2_full_refusal.*3_partial_refusal"
    ):
        score_file(file, benchmark)


def test_the_audit_s_own_command_scores_a_file_and_starts_nothing(
    crows: Benchmark,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`audit validity score=FILE`, and a bad file in a sentence."""
    from audit.validity.__main__ import main as command

    crows_csv = tmp_path / "crows.csv"

    def outcome(rows: list[dict[str, Any]], *more: str) -> tuple[int, str, str]:
        file = predictions(tmp_path, rows)
        words = [
            "validity",
            f"score={file}",
            "benchmark=crows_pairs",
            f"benchmark.path={crows_csv}",
            *more,
        ]
        monkeypatch.setattr("sys.argv", words)
        with pytest.raises(SystemExit) as ended:
            command()
        return int(ended.value.code or 0), *capsys.readouterr()

    rows = [
        {"id": "crows_pairs/0", "logprobs": [-3.0, -4.0]},
        {"id": "crows_pairs/1", "logprobs": [-5.0, -5.0001]},
    ]
    code, out, _ = outcome(rows)
    file = tmp_path / "predictions.jsonl"
    assert code == 0 and out.splitlines() == lines(score_file(file, crows))
    code, out, err = outcome([{"id": "crows_pairs/9", "response": 0}])
    assert code == 1 and not out and "'crows_pairs/9'" in err
    assert outcome(rows, "scorer=bbq_race")[0] == 1  # it reads another benchmark
    assert not list(tmp_path.glob("outputs"))
