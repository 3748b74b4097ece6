"""What cannot be measured is refused before an engine loads, or counted as unread: nothing unread
is scored as wrong.

Predictions with unknown or repeated ids: test_score_file; an endpoint's reply without logprobs:
test_openai_engine."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf
from validity_runs import contrast_items, write_run

from audit.benchmarks.config import BenchmarkConfig
from audit.config.base import CONF_DIR, load_group, load_model_config
from audit.core.errors import AuditError, BenchmarkError, ConfigError, DataError
from audit.core.records import FinishReason, Generation, Item
from audit.scoring.reference import JUDGED, SCORERS, find_scorer
from audit.validity.config import ValidityConfig, scorer_of, validate
from audit.validity.plan import resolve_validity
from audit.validity.report import judge


def config(
    name: str, path: Path | str | None = None, engine: str = "scripted", **changes: Any
) -> ValidityConfig:
    benchmark = BenchmarkConfig(name=name, format=name, path=None if path is None else str(path))
    model = replace(load_model_config("scripted"), engine=engine)
    return replace(ValidityConfig(benchmark=benchmark, model={"m": model}, n="all"), **changes)


def bbq_row(example: int, category: str = "Pets") -> dict[str, Any]:
    """A row whose two groups nobody else names in the other order."""
    return {
        "example_id": example,
        "question_index": "1",
        "question_polarity": "neg",
        "context_condition": "ambig",
        "category": category,
        "answer_info": {
            "ans0": [f"cat {example}", "cat"],
            "ans1": ["Not known", "unknown"],
            "ans2": [f"dog {example}", "dog"],
        },
        "additional_metadata": {"stereotyped_groups": ["cat"], "version": "None"},
        "context": f"Cat {example} and dog {example} sat.",
        "question": "Who slept?",
        "ans0": f"Cat {example}",
        "ans1": "Not known",
        "ans2": f"Dog {example}",
        "label": 1,
    }


def test_no_number_of_items_is_as_many_as_the_source_asks_or_all_that_there_are() -> None:
    """The plain command, `audit validity`, is of the embedded 60."""
    n = OmegaConf.load(CONF_DIR / "validity.yaml").n
    plain = config("contrast", n=n, protocol=load_group("protocol", "song2026"))
    assert resolve_validity(plain).resolved.samples[0].sample.n == 60


def test_items_without_partner_rows_or_options_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "Pets.jsonl"
    path.write_text("".join(json.dumps(bbq_row(i * 4)) + "\n" for i in range(5)))
    with pytest.raises(BenchmarkError, match=r"No sampled item of bbq has a partner.*BBQ all rows"):
        resolve_validity(config("bbq", path))
    path = tmp_path / "mc_task.json"
    path.write_text(
        json.dumps([{"question": "Is it?", "mc1_targets": {"Yes.": 1}, "mc2_targets": {"Yes.": 1}}])
    )
    with pytest.raises(AuditError, match="option"):
        resolve_validity(config("truthfulqa", path))


@pytest.mark.parametrize(
    ("configuration", "message"),
    [
        (config("contrast", formats=["lower_case"]), "lower_case"),
        (
            config("bbq", engine="openai"),
            "bbq_race needs continuations, which engine openai does not give",
        ),
        (
            config("truthfulqa", scorer="truthfulqa_mc1"),
            "never shows the options.*scorer=truthfulqa_lettered",
        ),
        (config("bbq", scorer="xstest_strmatch"), "reads xstest and not bbq"),
        (config("arc_easy"), "arc_easy, which has no reference scorer"),
        (config("arc_easy", scorer="bbq_race"), "reads bbq and not arc_easy.*benchmark=bbq"),
        (config("contrast", replays=0), "Invalid replays: 0"),
        (config("contrast", template="tusk"), "tusk"),
        (config("contrast", system="none at all"), "none at all"),
        (config("contrast", templates={"plain": "{question}"}), r"templates\.plain"),
        (config("crows_pairs", systems={"none": "Be kind."}), "system=none"),
        (config("bbq", judge="scripted"), "bbq has no refusals"),
        (config("xstest", judge="scripted", scorer="xstest_strmatch"), "are not used together"),
        (config("xstest", scorer=JUDGED), "are not used together"),
        (config("xstest", judge="gpt_nowhere"), "gpt_nowhere"),
        (config("xstest", judge="scripted", judge_votes=0), "judge_votes is 0"),
        (config("xstest", labels="nowhere.csv"), "labels="),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_refused_before_an_engine_loads(
    configuration: ValidityConfig, message: str
) -> None:
    with pytest.raises((ConfigError, DataError), match=message):
        validate(configuration)


def test_crows_pairs_is_read_by_what_the_engine_can_give_and_the_name_says_which() -> None:
    names = {
        engine: scorer_of(config("crows_pairs", engine=engine)).name
        for engine in ("vllm", "masked_lm")
    }
    assert names == {"vllm": "crows_causal_full", "masked_lm": "crows_mlm_shared"}
    judges = {judge: scorer_of(config("xstest", judge=judge)).name for judge in ("scripted", None)}
    assert (
        judges == {"scripted": JUDGED, None: "xstest_strmatch"}
        and find_scorer(JUDGED) is SCORERS[JUDGED]
    )


@pytest.mark.parametrize("name", [name for name, s in SCORERS.items() if s.benchmark != "xstest"])
@pytest.mark.parametrize("value", [None, float("nan")])
def test_an_endpoint_that_tells_no_logprobs_is_unread_and_not_wrong(
    name: str, value: float | None
) -> None:
    scorer = SCORERS[name]
    options = (
        ("neutral", "hate")
        if scorer.benchmark == "toxigen"
        else ("The tall cat ran.", "The small cat ran.")
    )
    item = Item("q", scorer.benchmark, "Which?", options, 0, "q")
    request = scorer.ask(item, "paren")
    texts = request.continuations or request.letters
    reply = Generation(finish_reason=FinishReason.SCORED, option_logprobs=(value,) * len(texts))
    reading = scorer.read(item, reply)
    assert (reading.response, reading.score) == (None, None) and reading.why


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished") / "run"
    write_run(folder, contrast_items(8, 6), "contrast_cloze")
    return folder


ODD = [
    (("scorer", "validated"), "false"),
    (("scorer", "lettered"), 1),
    (("scorer", "self_test", "passed"), "false"),
    (("scorer", "self_test"), "x"),
    (("scorer", "self_test", "oracle"), {"score": "1", "unread": 0.0}),
    (("scorer", "evidence"), None),
    (("scorer", "evidence"), [[1]]),
    (("scorer", "name"), 3),
    (("scorer", "injected"), [{"fault": 1}]),
    (("scorer", "chance"), []),
    (("scorer", "chance"), {}),
    (("scorer", "chance", "contrast/0"), -1.5),
    (("scorer", "chance", "contrast/0"), "x"),
    (("scorer",), {}),
    (("edits_per_family",), -1),
    (("edits_per_family",), 2**70),
]


@pytest.mark.parametrize(
    ("path", "value"),
    ODD,
    ids=lambda value: ".".join(value) if isinstance(value, tuple) else repr(value),
)
def test_what_a_manifest_says_of_the_analysis_in_another_kind_is_refused(
    finished: Path, path: tuple[str, ...], value: Any
) -> None:
    """The text "false" validated a scorer, -1.5 as chance let any score pass G2, others ended in
    tracebacks."""
    manifest = finished / "manifest.json"
    text = manifest.read_text()
    document = json.loads(text)
    at = document["analysis"]
    for name in path[:-1]:
        at = at[name]
    at[path[-1]] = value
    try:
        manifest.write_text(json.dumps(document))
        with pytest.raises(ConfigError):
            judge([finished], n_resamples=2)
    finally:
        manifest.write_text(text)


def test_the_same_manifest_as_it_was_is_judged(finished: Path) -> None:
    assert len(judge([finished], n_resamples=2)[0].results) == 2
