"""A perturbation audit of two imported logs: originals, and the same items in other words."""

import json
from pathlib import Path

import numpy as np
import pyarrow.dataset as ds
import pytest
from commands_here import import_logs as main

from audit.perturb.report import judge
from audit.variants.arrow import read_library, write_library
from audit.variants.review_file import read_review, write_review

N, ABLE = (
    600,
    {
        "spoilt": 0.3,
        "clean": 0.9,
        "r1": -0.2,
        "s2": 0.3,
        "t3": 1.0,
        "u4": 1.4,
        "v5": 2.0,
        "w6": 2.6,
    },
)
OPTIONS = ["one", "two", "three", "four"]


def answers(log: str, remembered: float) -> list[tuple[str, int, int]]:
    """(model, item, right): an item is as hard and a model as lucky in every log, and only `spoilt`
    remembers."""
    rng = np.random.default_rng(5)
    hard, luck = rng.normal(0, 4, N), rng.logistic(size=(len(ABLE), N))
    slip = np.random.default_rng(len(log)).random((len(ABLE), N)) < 0.04
    right = np.array(list(ABLE.values()))[:, None] - hard + luck > 0
    right[0] |= np.random.default_rng(9).random(N) < remembered
    return [(m, i, int(right[k, i] ^ slip[k, i])) for k, m in enumerate(ABLE) for i in range(N)]


def table(folder: Path, log: str, remembered: float) -> list[str]:
    rows = [
        f"{m},q{i},{right},{log} words of item {i},4" for m, i, right in answers(log, remembered)
    ]
    (folder / f"{log}.csv").write_text("\n".join(["model,item,correct,text,options", *rows]) + "\n")
    return [str(folder / f"{log}.csv")]


def lm_eval(folder: Path, log: str, remembered: float) -> list[str]:
    lines: dict[str, list[str]] = {}
    for m, i, right in answers(log, remembered):
        doc = {
            "audit_id": f"q{i}",
            "question": f"{log} words of item {i}",
            "choices": OPTIONS,
            "answer": 1,
        }
        sample = {
            "doc_id": i,
            "doc": doc,
            "target": "1",
            "doc_hash": f"{log}{i}",
            "acc": float(right),
        }
        lines.setdefault(m, []).append(json.dumps(sample))
    words = []
    for m, model_lines in lines.items():
        path = folder / m / f"samples_{log}_2026-11-25T10-00-00.0.jsonl"
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(model_lines) + "\n")
        words.append(f"{m}={path}")
    return words


@pytest.mark.parametrize("write", [pytest.param(table, marks=pytest.mark.long), lm_eval])
def test_from_two_logs_to_a_verdict_and_its_page(write, tmp_path: Path) -> None:
    run = tmp_path / "run"
    logs = write(tmp_path, "seen", 0.9), write(tmp_path, "reworded", 0.0)
    words = [*logs[0], "--reworded", *logs[1], "--judge", "spoilt", "clean", "-o", str(run)]
    assert main(words) == 0
    content = json.loads((run / "report" / "verdict.json").read_text())
    cells = {cell["model"]: cell for cell in content["cells"]}
    spoilt = cells["spoilt"]
    right = {
        log: np.mean([x[2] for x in answers(log, remembered) if x[0] == "spoilt"])
        for log, remembered in (("seen", 0.9), ("reworded", 0.0))
    }
    drop = spoilt["evidence"]["drop"]
    assert (drop["original"], drop["variants"]) == pytest.approx(
        (right["seen"], right["reworded"]), rel=1e-5
    )
    assert (spoilt["verdict"], spoilt["doubt"]) == ("drop_cause_unknown", "variants_not_read")
    assert (
        cells["clean"]["verdict"] in ("underpowered", "no_drop_detected")
        and len(spoilt["references"]) == 6
    )
    gates = {gate["name"]: gate["status"] for gate in spoilt["gates"]}
    assert gates["variants_reached_model"] == gates["broken_share"] == "not_applicable"
    assert any("not under our control" in limit for limit in spoilt["cannot_exclude"])
    page = (run / "report" / "report.html").read_text()
    assert "words of item" in page and ("Right answer: two" in page) == (write is lm_eval)
    # A person reads the rewordings: what bars a finding beyond reference goes. A model's reading
    # changes nothing.
    library = read_library(run / "variants.arrow")
    sheet = tmp_path / "review.jsonl"
    write_review(library, sheet, n=150, seed=0)
    empty = sheet.read_text().replace('"finding": ""', '"finding": "ok"')
    for by, reached in (("model", "drop_cause_unknown"), ("person", "drop_beyond_reference")):
        sheet.write_text(empty.replace('"read_by": ""', f'"read_by": "{by}"'))
        reviewed = write_library(
            read_review(library, sheet, reviewer="me"), tmp_path / f"{by}.arrow"
        )
        rejudged, _ = judge([run], variants=str(reviewed), n_resamples=200)
        assert next(r for r in rejudged.results if r.model == "spoilt").verdict == reached


HEAD = "model,item,correct,text,options\n"


def test_logs_that_do_not_meet_are_refused(tmp_path: Path, capsys) -> None:
    (tmp_path / "seen.csv").write_text(HEAD + "".join(f"m,q{i},1,w,4\n" for i in range(9)))
    (tmp_path / "other.csv").write_text(HEAD + "m,x1,1,w,4\n")
    run = tmp_path / "run"
    assert (
        main(
            [str(tmp_path / "seen.csv"), "--reworded", str(tmp_path / "other.csv"), "-o", str(run)]
        )
        == 1
    )
    message = capsys.readouterr().err
    assert ("holds 0" in message or "has 0 of the" in message) and not run.exists()


def test_the_same_questions_asked_again_are_no_rewording(tmp_path: Path, capsys) -> None:
    """A second run of the published items has other answers, no drop, and would pass."""
    logs = [tmp_path / "seen.csv", tmp_path / "again.csv"]
    for log, blank in zip(logs, (" ", "  "), strict=True):
        log.write_text(
            HEAD
            + "".join(f"m,q{i},{int(i % 9 > len(blank))},What{blank}is {i}?,4\n" for i in range(90))
        )
    run = tmp_path / "run"
    assert main([str(logs[0]), "--reworded", str(logs[1]), "-o", str(run)]) == 1
    assert "90 of the 90 items" in capsys.readouterr().err and not run.exists()


def test_of_several_trials_one_is_drawn(tmp_path: Path) -> None:
    """k of ten right: about k tenths of 400 drawn trials are (within five standard errors); a seed
    draws others."""
    words = [str(tmp_path / "seen.csv"), "--reworded", str(tmp_path / "other.csv")]
    for name, k in (("seen", 8), ("other", 3)):
        (tmp_path / f"{name}.csv").write_text(
            HEAD + "".join(f"m,q{i},{k}/10,{name} words,4\n" for i in range(400))
        )
    drawn = []
    for seed in ("0", "1"):
        run = tmp_path / seed
        assert main([*words, "--seed", seed, "-o", str(run)]) == 0
        stored = ds.dataset(run / "shards", format="ipc").to_table().to_pylist()
        rows = {(row["question_id"], row["arm"]): row["correct"] for row in stored}
        assert len(rows) == 800
        shares = [
            sum(right for (_, arm), right in rows.items() if arm == kind) / 400
            for kind in ("original", "variant")
        ]
        assert shares == pytest.approx([0.8, 0.3], abs=5 * 0.5 / 20)
        drawn.append(rows)
    assert drawn[0] != drawn[1]
