"""Replies without an answer are asked again once, by the likelihood of the options."""

import json
from pathlib import Path

import pytest
from audit_here import audit_here, undrawn
from pipeline_helpers import rows_of

from audit.shards.manifest import Manifest
from audit.sweep.audit import SCHEMA

KEY = ("model", "question_id", "arm", "variant", "replicate")


def perturb(run_dir: Path, *words: str) -> list[dict]:
    scripted = "model.scripted.scripted"
    given = [
        "model=scripted",
        "n=40",
        "num_variants=1",
        "original_replicates=1",
        "progress=false",
        f"{scripted}.parse_failures=0.25",
        f"{scripted}.accuracy.original=0.9",
    ]
    done = audit_here("perturb", run_dir, *given, *words)
    assert done.code == 0, done.out
    return rows_of(run_dir)


@pytest.fixture(scope="module")
def runs(driver, tmp_path_factory) -> dict[str, tuple[Path, dict[tuple, dict]]]:
    results = {}
    for name, words in (("kept", ["reask=false"]), ("asked", [])):
        run_dir = tmp_path_factory.mktemp("reask") / name
        with undrawn():
            rows = perturb(run_dir, *words)
        results[name] = run_dir, {tuple(row[k] for k in KEY): row for row in rows}
        assert len(results[name][1]) == len(rows) == 80
    return results


def test_what_could_not_be_read_is_answered_by_likelihood_and_says_so(runs):
    plain, reasked = runs["kept"][1], runs["asked"][1]
    unparsed = {key for key, row in plain.items() if not row["parsed"]}
    assert 10 <= len(unparsed) <= 30  # a quarter of 80
    assert not any(row["reasked"] for row in plain.values())
    for key, row in reasked.items():
        before = plain[key]
        assert row["parsed"] and row["reasked"] == (key in unparsed)
        assert (
            row["response"] == before["response"]
            and row["request_sha256"] == before["request_sha256"]
        )
        assert row["reading"] == "letter"
        if key in unparsed:
            assert row["answer_form"] == "logprob" and len(row["option_logprobs"]) == len(
                row["options"]
            )
            assert row["answer"] == max(
                range(len(row["options"])), key=row["option_logprobs"].__getitem__
            )
            assert row["correct"] == (row["answer"] == row["gold"])
            # the same prompt once more: its tokens are what it cost
            assert row["prompt_tokens"] == 2 * before["prompt_tokens"]
        else:
            assert {**row, "engine_id": ""} == {**before, "engine_id": ""}


@pytest.mark.long  # a third run
def test_the_likelihood_may_be_that_of_the_options_texts(runs, tmp_path):
    rows = perturb(tmp_path / "text", "reask=option_text", "report=false")
    assert {tuple(row[k] for k in KEY) for row in rows} == runs["asked"][1].keys()
    assert all(row["parsed"] for row in rows)
    assert (
        Manifest.load(tmp_path / "text").fingerprint != Manifest.load(runs["asked"][0]).fingerprint
    )


def test_they_are_counted_in_the_costs_and_in_the_verdict(runs):
    for name in ("kept", "asked"):
        run_dir, rows = runs[name]
        reasked = sum(row["reasked"] for row in rows.values())
        cost = Manifest.load(run_dir).cost["scripted"]
        assert sum(arm["worker"]["calls"] for arm in cost.values()) == 80 + reasked
        (counted,) = json.loads((run_dir / "report" / "verdict.json").read_text())["rows"]
        assert counted["reasked"] == reasked and (reasked > 0) == (name == "asked")
    fingerprints = {Manifest.load(run_dir).fingerprint for run_dir, _ in runs.values()}
    assert len(fingerprints) == 2  # it decides rows


def test_only_options_of_an_engine_that_tells_likelihoods_are_asked_for_again():
    from dataclasses import replace

    from audit.config.base import RunConfig, load_model_config, reask_of
    from audit.core.errors import ConfigError

    scripted = load_model_config("scripted")
    run = RunConfig(model={"scripted": scripted})
    assert (
        reask_of(run, scripted) == "letter_logprob"
        and reask_of(replace(run, reask=False), scripted) is None
    )
    assert reask_of(run, load_model_config("llama3_8b")) == "letter_logprob"
    assert reask_of(run, load_model_config("openai_compatible")) is None
    assert reask_of(replace(run, reading="option_text"), scripted) is None
    gsm8k = replace(run.benchmark, name="gsm8k", format="gsm8k")
    assert reask_of(replace(run, benchmark=gsm8k), scripted) is None  # numbers have no options
    for bad in ("letter", "yes", ["true"]):
        with pytest.raises(ConfigError, match="Invalid reask"):
            reask_of(replace(run, reask=bad), scripted)
    assert "reasked" in SCHEMA.columns.names
