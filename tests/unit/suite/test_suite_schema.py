"""What a suite may say: one schema for YAML and JSON, and what is refused with what to write
instead."""

import copy
import json
from collections.abc import Callable
from dataclasses import MISSING, asdict, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from commands_here import suite as main
from jsonschema import Draft202012Validator
from omegaconf import OmegaConf
from suites import small, suite

from audit.config.audits import AUDITS
from audit.config.base import CONF_DIR, load_group, load_model_config
from audit.config.resolve import revision_of
from audit.core.errors import ConfigError
from audit.judging.forms import FORMS
from audit.suite.commands import (
    audit_words,
    check_version,
    domain_of,
    model_name,
    steps,
    windows_of,
)
from audit.suite.read import SUITES, known_suites, read_suite, suite_of
from audit.suite.schema import DOMAINS, VERSION, DomainThresholds, Suite, schema_text
from audit.variants.config import policy_for

# The source's listing, letter by letter.
ARTICLE = (
    Path(__file__).resolve().parents[2] / "golden" / "suite" / "gsm8k_contamination_audit_v3.json"
)
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def named(benchmark: str, **changes: Any) -> dict[str, Any]:
    return small(dataset_config={"benchmark_name": benchmark, "sample_size": 20}, **changes)


def fields_of(kind: Any, schema: dict[str, Any]) -> None:
    """A class has the fields, defaults and needs that the schema says."""
    properties = {name: value for name, value in schema["properties"].items() if name != "$schema"}
    assert [field.name for field in fields(kind)] == list(properties) and not schema[
        "additionalProperties"
    ]
    types = get_type_hints(kind)
    for field in fields(kind):
        given = field.default_factory() if field.default_factory is not MISSING else field.default
        if is_dataclass(types[field.name]):
            fields_of(types[field.name], properties[field.name])
        else:
            assert properties[field.name].get("default", MISSING) == given
        assert (field.name in schema["required"]) == (given is MISSING), field.name


def test_the_published_schema_and_the_classes_agree() -> None:
    schema = json.loads(schema_text())
    Draft202012Validator.check_schema(schema)
    fields_of(Suite, schema)
    part = schema["properties"]
    fields_of(DomainThresholds, part["domains"]["additionalProperties"])
    assert part["domains"]["propertyNames"]["enum"] == list(DOMAINS)
    assert part["dataset_config"]["properties"]["domain"]["enum"] == [*DOMAINS, None]
    assert part["audits"]["propertyNames"]["enum"] == list(AUDITS)
    assert part["governance"]["properties"]["forms_required"]["propertyNames"]["enum"] == list(
        FORMS
    )
    assert part["model_config"]["properties"]["model_version"]["pattern"] == VERSION
    for name in known_suites():
        plain = OmegaConf.to_container(OmegaConf.load(SUITES / f"{name}.yaml"))
        assert not list(Draft202012Validator(schema).iter_errors(plain))
        assert not list(
            Draft202012Validator(schema).iter_errors(asdict(suite_of(plain)))
        )  # what is read is one too


def test_the_sources_json_and_the_shipped_yaml_are_one_suite() -> None:
    read = read_suite(str(ARTICLE))
    assert read == read_suite("gsm8k_contamination_audit_v3")
    source = json.loads(ARTICLE.read_text())
    shipped = asdict(read)
    for section in set(source) - {"$schema"}:  # not one field of it is lost
        values = (
            {k: shipped[section][k] for k in source[section]}
            if isinstance(source[section], dict)
            else shipped[section]
        )
        assert values == source[section]
    assert read.audits == {"perturb": []} and read.gate == "ours"


def test_every_field_of_the_source_says_something_to_the_audit() -> None:
    suite = read_suite("gsm8k_contamination_audit_v3")
    (words,) = audit_words(suite).values()
    assert words == [
        "endpoint=https://inference.internal/v1/infer",
        "model_id=org/model-name",
        "benchmark=gsm8k",
        "n=500",
        "seed=42",
        'model.org_model-name.revision="sha256:a1b2c3d4e5f6"',
        "verdict.alpha=0.05",
        'benchmark.hub_config="main"',
        "num_variants=3",
    ]
    (step,) = steps(suite, {"perturb": words}, "out")
    (endpoint,) = step.config.model["org_model-name"].endpoints
    assert (endpoint.url, endpoint.model) == (
        "https://inference.internal/v1/infer",
        "org/model-name",
    )
    assert (step.config.n, step.config.run_dir) == (500, "out/perturb")
    claimed = check_version(suite, step.config.model["org_model-name"], lambda _: "not asked")
    assert claimed == {"stated": "sha256:a1b2c3d4e5f6", "found": None, "claimed": True}


@pytest.mark.parametrize(
    "version", ["latest", "main", "v1.2", "", "0123abc", "sha256:0123", "SHA256:0123456789ab"]
)
@pytest.mark.parametrize(
    ("endpoint", "instead"),
    [(None, "git ls-remote"), ("http://gpu1:8000/v1", "recorded as claimed")],
)
def test_a_mutable_model_is_refused_with_what_to_write(
    version: str, endpoint: str | None, instead: str
) -> None:
    pin = {"model_id": "qwen3_8b", "model_version": version, "endpoint": endpoint}
    with pytest.raises(ConfigError, match=instead):
        suite(model_config=pin)


@pytest.mark.parametrize(
    "version", ["gpt-4o-2024-08-06", "m-20250514", "2024-08-06", "a-2024-08-06-b"]
)
def test_a_closed_api_is_pinned_by_its_dated_snapshot_which_every_row_carries(version: str) -> None:
    pin = {"model_id": "gpt-4o", "model_version": version, "endpoint": "http://gpu1:8000/v1"}
    pinned = suite(model_config=pin, audits={"sweep": []})
    for step in steps(pinned, audit_words(pinned), "out"):
        model = step.config.model["gpt-4o"]
        assert revision_of(model, None) == f"endpoint:gpt-4o@{version}"
        assert check_version(pinned, model, lambda _: "not asked")["claimed"]
    with pytest.raises(ConfigError, match="git ls-remote"):  # weights have a commit or a hash
        suite(model_config={**pin, "endpoint": None})


@pytest.mark.parametrize("version", ["gpt-4o", "gpt-4-0613", "2024-13-06", "x120240806", "2024-08"])
def test_a_name_without_a_day_may_move(version: str) -> None:
    pin = {"model_id": "gpt-4o", "model_version": version, "endpoint": "http://gpu1:8000/v1"}
    with pytest.raises(ConfigError, match="dated snapshot"):
        suite(model_config=pin)


def change(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def do(plain: dict[str, Any]) -> None:
        *above, last = path.split(".")
        for name in above:
            plain = plain.setdefault(name, {})
        plain[last] = value

    return do


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (change("governance.audit_ownr", "x"), "Did you mean 'governance.audit_owner'"),
        (change("governance.rotate_every", "week"), "governance.rotate_every"),
        *(
            (change("governance.notify_on_failure", [to]), "Expected an e-mail address")
            for to in (
                "#channel",
                "slack://token",
                "a@b@c",
                "a@example.org?to=x",
                "a@example.org,b@c",
            )
        ),
        (
            change("model_config", {"model_id": "m", "endpoint": "http://gpu1:8000/v1"}),
            "may later serve other weights",
        ),
        (change("sample_size", 3), "Did you mean 'dataset_config.sample_size'"),
        (change("dataset_config.dataset_version", "latest"), "may refer to other questions later"),
        (change("dataset_config.sample_size", 0), "dataset_config.sample_size"),
        (change("dataset_config.sample_size", "some"), "dataset_config.sample_size"),
        (change("dataset_config.sample_size", True), "dataset_config.sample_size"),
        (change("scoring_config.significance_alpha", 1.0), "significance_alpha"),
        (
            change("scoring_config.significance_alpha", float("nan")),
            "significance_alpha is not finite",
        ),
        (change("scoring_config.contamination_threshold", "0.1"), "is not of type 'number'"),
        (change("governance.block_deployment_above_contaminated_pct", 101), "maximum of 100"),
        (change("audits", {"sweeep": []}), "'sweeep' is not one of"),
        (change("audits", {}), "audits"),
        (change("audits", {"perturb": ["n=5", 3]}), "audits.perturb.1"),
        (change("domains", {"poetry": {}}), "'poetry' is not one of"),
        (change("gate", "theirs"), "gate: 'theirs' is not one of"),
        (change("audit_suite_id", "../x"), "audit_suite_id"),
        (change("model_config", "m"), "model_config"),
        (lambda plain: plain.pop("dataset_config"), "'dataset_config' is a required property"),
        (
            change(
                "perturbation_config", {"min_semantic_distance": 0.5, "max_semantic_distance": 0.2}
            ),
            "Expected less than max_semantic_distance",
        ),
        (
            lambda plain: plain.update(gate="source", audits={"sweep": []}),
            "Expected perturb among the audits",
        ),
    ],
)
def test_what_is_no_suite_is_refused(spoil: Callable[[dict[str, Any]], Any], why: str) -> None:
    plain = copy.deepcopy(small())
    spoil(plain)
    with pytest.raises(ConfigError, match=why):
        suite_of(plain)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", "{"),
        ("a.json", "[]"),
        ("a.json", '{"gate": "ours", "gate": "source"}'),
        ("a.yaml", "a: [1"),
        ("a.yaml", "gate: ours\ngate: source\n"),
        ("a.yaml", "- 1\n"),
        ("a.json", "[" * 100_000),
        ("a.json", '"' + "x" * (1 << 20) + '"'),
    ],
)
def test_a_file_that_is_no_suite_is_refused_in_a_sentence(
    name: str, text: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError):
        read_suite(str(tmp_path / name))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            "audits.sweep.seed=3",
            "audits.sweep.seed",
        ),  # seed=3 is one of the sweep's words, and these are a list
        ("dataset_config.sample_size.most=3", "dataset_config.sample_size.most"),
        ("scoring_config.significance_alpha=.nan", "scoring_config.significance_alpha"),
        ("[=1", r"\["),
        ("seed", "key=value"),
        ("gate=[", r"gate=\["),
    ],
)
def test_a_change_that_cannot_be_made_is_refused_by_its_key(change: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        read_suite("demo", [change])


def test_the_weights_have_to_be_the_stated_ones() -> None:
    model = load_model_config("smollm2_135m")
    whole = "sha256:" + "ab" * 32
    pinned = suite(model_config={"model_id": "smollm2_135m", "model_version": whole[:19]})
    assert check_version(pinned, model, lambda _: whole) == {
        "stated": whole[:19],
        "found": whole,
        "claimed": False,
    }
    with pytest.raises(ConfigError, match="smollm2_135m have the version sha256:cd"):
        check_version(pinned, model, lambda _: "sha256:" + "cd" * 32)
    scripted = suite(model_config={"model_id": "smollm2_135m", "model_version": "scripted"})
    with pytest.raises(ConfigError, match="model=smollm2_135m model_version=VERSION"):
        check_version(scripted, model, lambda _: whole)
    with pytest.raises(ConfigError, match="model=scripted model_version=scripted"):
        check_version(pinned, load_model_config("scripted"), lambda _: whole)


def test_a_model_is_found_by_its_name_or_hub_id() -> None:
    def named(model_id: str) -> str:
        return model_name(suite(model_config={"model_id": model_id, "model_version": COMMIT}))

    assert named("qwen3_8b") == named("Qwen/Qwen3-8B") == "qwen3_8b"
    assert named("org/Some.7B") == "org_Some_7B"
    other = suite(model_config={"model_id": "org/Some.7B", "model_version": COMMIT})
    assert audit_words(other)["perturb"][0] == "model=hf:org/Some.7B"
    with pytest.raises(ConfigError, match="A hub id"):
        named("nobody")
    pinned = suite(model_config={"model_id": "qwen3_8b", "model_version": COMMIT})
    assert f'model.qwen3_8b.revision="{COMMIT}"' in audit_words(pinned)["perturb"]


def test_a_file_of_ones_own_may_have_any_name() -> None:
    document = small(audits={"sweep": []})
    document["dataset_config"] |= {"benchmark_name": "exam", "path": "exam.csv"}
    words = audit_words(suite_of(document))["sweep"]
    assert {"benchmark=mcq_file", 'benchmark.name="exam"', 'benchmark.path="exam.csv"'} <= set(
        words
    )


def test_the_domain_sets_what_our_verdicts_have_to_exclude() -> None:
    audits = {"sweep": [], "validity": ["benchmark=contrast"]}
    plain = small(audits=audits, domains={"general": {"effect_of_interest": 0.1}})
    words = audit_words(suite_of(plain))
    assert domain_of(suite_of(plain)) == "general"
    assert "verdict.effect_of_interest=0.1" in words["sweep"]
    assert not [
        word for word in words["validity"] if "effect" in word or word == "benchmark=elementary"
    ]
    plain["dataset_config"]["domain"] = "code"
    assert not [word for word in audit_words(suite_of(plain))["sweep"] if "effect" in word]


def test_one_table_has_the_domain_of_every_shipped_benchmark_and_the_window_of_every_domain() -> (
    None
):
    table = load_group("rewording", "policy")
    assert set(table["windows"]) == set(DOMAINS)
    shipped = {path.stem for path in (CONF_DIR / "benchmark").glob("*.yaml")}
    shipped -= {"mcq_file"}  # whose rows are the user's
    assert {name: domain_of(suite_of(named(name))) in DOMAINS for name in shipped} == dict.fromkeys(
        shipped, True
    )
    low, high = table["windows"]["reasoning"]
    for name in ("gsm8k", "arc_challenge", "mmlu_pro", "commonsense_qa"):
        assert domain_of(suite_of(named(name))) == "reasoning"
        assert (policy_for(name, table).low, policy_for(name, table).high) == (low, high)


@pytest.mark.parametrize("name", known_suites())
def test_a_shipped_suite_accepts_the_library_that_the_shipped_policy_builds(name: str) -> None:
    suite = read_suite(name)
    policy = policy_for(suite.dataset_config.benchmark_name, load_group("rewording", "policy"))
    assert (policy.low, policy.high) in windows_of(suite)
    assert (0.1, 0.9) not in windows_of(suite)
    windowed = replace(
        suite.perturbation_config, min_semantic_distance=0.1
    )  # a window of the suite's own is kept to
    assert windows_of(replace(suite, perturbation_config=windowed)) == [
        (0.1, windowed.max_semantic_distance)
    ]


def test_a_benchmark_of_no_known_domain_is_asked_for_one_where_thresholds_hang_on_it() -> None:
    plain = named("mcq_file", domains={"factual": {"effect_of_interest": 0.1}})
    with pytest.raises(
        ConfigError, match=r"domain of mcq_file is unknown.*dataset_config.domain=factual"
    ):
        audit_words(suite_of(plain))
    plain["dataset_config"]["domain"] = "factual"
    assert "verdict.effect_of_interest=0.1" in audit_words(suite_of(plain))["perturb"]
    audit_words(suite_of(named("mcq_file")))


@pytest.mark.parametrize(
    "word", ["model=qwen3_8b", "run_dir=x", "gate=true", "seed=1", "model.scripted.max_num_seqs=1"]
)
def test_what_the_suite_decides_an_audit_may_not(word: str) -> None:
    with pytest.raises(ConfigError, match="set by the suite"):
        audit_words(suite(audits={"perturb": [word]}))


@pytest.mark.parametrize("fact", ["released=2025-12", "family=llama"])
def test_an_audit_of_a_suite_may_state_facts_about_models(fact: str) -> None:
    """The memory audit blocks only with release dates, and a suite's file must be able to state
    them."""
    word = f"model.reference.{fact}"
    assert word in audit_words(suite(audits={"memory": [word]}))["memory"]


def test_words_are_checked_by_each_audits_own_command(
    capsys: pytest.CaptureFixture, tmp_path: Path
) -> None:
    (tmp_path / "s.yaml").write_text(json.dumps(small(audits={"sweep": ["r=1..2"], "memory": []})))
    for words, message in (
        (
            ["sweep.benchmark=arc_easy", "sweep.benchmark.revision=main"],
            "benchmark arc_easy on the hub is",
        ),
        (["sweep.r=9..1"], "sweep: Invalid r"),
        (["sweep.rr=1"], "sweep: Unknown key: 'rr'"),
        (["validity.n=3"], "Expected an audit of this suite: sweep, memory"),
        (["orders=3"], "sweep: Unknown key: 'orders'"),  # of every audit, and the sweep has none
        (["plan=perhaps"], "Example: plan=true"),
        (["plan"], "Expected key=value"),
        (["dataset_config.path=[1"], "cannot be read"),
        (
            [
                "dataset_config.benchmark_name=mcq_file",
                "dataset_config.path=nowhere.jsonl",
                "plan=true",
            ],
            "nowhere",
        ),
    ):
        assert main([str(tmp_path / "s.yaml"), *words]) == 1
        assert message in capsys.readouterr().err, words


def test_a_change_reads_nothing_of_the_environment() -> None:
    path = "${oc.env:HOME}"  # a key that stands there would go into suite.json
    assert read_suite("demo", [f"dataset_config.path={path}"]).dataset_config.path == path


@pytest.mark.long  # four plans
def test_the_plan_counts_every_audit_and_starts_nothing(
    capsys: pytest.CaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    audits = {
        "sweep": ["r=1"],
        "perturb": [],
        "memory": ["n=all", "orders=1"],
        "validity": ["benchmark=contrast", "n=6"],
    }
    Path("s.json").write_text(json.dumps(small(audits=audits)))

    def planned(*words: str) -> dict[str, list[str]]:
        """By audit its line: audit, model, benchmark, calls, tokens (two), hours, GPU-hours, cost,
        currency."""
        assert main([*words, "plan=true", "cost.gpu_hour=250"]) == 0
        lines = capsys.readouterr().out.replace(",", "").splitlines()
        return {line.split()[0]: line.split() for line in lines[2:7]}

    rows = planned("s.json")
    # sweep: 20 questions, direct + 3 forward_full + 2 noisy_rewrite = 6 answers and 5 router
    # messages each
    assert rows["sweep"][3] == "220" and rows["sweep"][-1] == "USD" and rows["perturb"][3] == "100"
    assert int(rows["all"][1]) == sum(int(rows[name][3]) for name in audits)
    assert rows["validity"][2] == "contrast" and [path.name for path in tmp_path.iterdir()] == [
        "s.json"
    ]
    rows = planned("demo", "+cost.throughput.smollm2_135m={prompt: 1000, generated: 100}")
    prompt, generated = map(int, rows["sweep"][4:6])
    hours = (prompt / 1000 + generated / 100) / 3600  # one GPU, so as many GPU-hours
    assert rows["sweep"][6:] == [f"{hours:.2g}", f"{hours:.2g}", f"{250 * hours:.2f}", "USD"]
    assert float(rows["all"][-2]) == pytest.approx(
        sum(float(rows[name][-2]) for name in audits), abs=0.03
    )
