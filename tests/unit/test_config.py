import os
from pathlib import Path

import pytest
from omegaconf.errors import OmegaConfBaseException

from audit.config.audits import AUDITS, part_of
from audit.config.base import known_models, load_group, protocol_of, reading_of
from audit.config.command_line import configured
from audit.config.references import judged
from audit.core.errors import ConfigError
from audit.core.records import Reading
from audit.engines.config import DECIDED_ENGINE_ARGS, ModelConfig
from audit.engines.vllm_engine import engine_args
from audit.sweep.config import SweepConfig, design_of
from audit.sweep.design import Draws, missing_controls

ENDPOINT = [
    "model=openai_compatible",
    "model.openai_compatible.endpoints=[{url: 'http://127.0.0.1:8000/v1', model: m}]",
]


def config(*overrides: str) -> SweepConfig:
    return configured("sweep", overrides)


def test_the_default_is_the_calibrated_sweep_of_the_embedded_model():
    default = config()
    assert list(default.model) == ["smollm2_135m"]
    assert default.seed == 42 and default.n is None
    design = design_of(default)
    assert design.kind == Draws.NESTED and missing_controls(design) == ()
    # direct 1; clean 3 times; as many routers that delete nothing at r=2..9; noisy at r=1..9, twice
    assert len(design.settings) == 1 + 3 + 8 + 18
    assert reading_of(default, default.model["smollm2_135m"]) == Reading.OPTION_TEXT


@pytest.mark.parametrize("name", known_models())
def test_every_shipped_model_composes(name):
    assert list(
        config(*(ENDPOINT if name == "openai_compatible" else [f"model={name}"])).model
    ) == [name]


def test_several_models_in_one_job():
    both = config("model=[scripted,qwen3_8b]", "r=1..3")
    assert list(both.model) == ["scripted", "qwen3_8b"]
    assert protocol_of(both, both.model["qwen3_8b"])["name"] == "song2026"


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["r=9..1"], "Invalid r: '9..1'"),
        (["r=0..3"], r"1 <= first <= last"),
        (["r=a"], "Invalid r: 'a'"),
        (["n=0"], "Invalid n: 0"),
        (["n=some"], "Invalid n: 'some'"),
        (["arms=[noisy]"], "Unknown arm: 'noisy'"),
        (["draws=nestd"], "Did you mean 'nested'?"),
        (["reading=letters"], "Did you mean 'letter'?"),
        (["store.format=csv"], "Expected arrow or parquet"),
        (
            ["reading=number"],
            "reading=number does not fit benchmark elementary, whose items have options",
        ),
        (
            ["benchmark=gsm8k", "reading=letter"],
            "does not fit benchmark gsm8k, whose answers are read as number",
        ),
        (["reading=text"], "reading=text of model smollm2_135m reads no answer"),
        (["gate=true", "report=false"], "gate=true needs the verdict"),
        (["model.smollm2_135m.engine=vlm"], "Did you mean 'vllm'?"),
        (["model.smollm2_135m.replicas=0"], "replicas of model smollm2_135m is 0"),
        (["model.smollm2_135m.executor=rey"], "Did you mean 'ray'?"),
        (["model.smollm2_135m.name=other"], "model.smollm2_135m.name=smollm2_135m"),
        (["model.smollm2_135m.max_restarts=-1"], "max_restarts of model smollm2_135m is -1"),
        (["model.smollm2_135m.load_timeout_s=0"], "load_timeout_s of model smollm2_135m is 0"),
        (
            ["model.smollm2_135m.preparing.temperature=-0.1"],
            "preparing.temperature of model smollm2_135m is -0.1",
        ),
        (
            ["model.smollm2_135m.worker.temperature=nan"],
            "worker.temperature of model smollm2_135m is nan",
        ),
        (["model.smollm2_135m.worker.top_p=0"], "worker.top_p of model smollm2_135m is 0.0"),
        (["verdict.alpha=2"], "Threshold alpha is 2"),
        (["+verdict.alfa=0.1"], "Did you mean 'alpha'?"),
        (
            ["model=scripted", "+model.scripted.scripted.accuracy.noisy=0.3"],
            "of model scripted: 'noisy'",
        ),
        (["+xyzzy=1"], r"Unknown key: 'xyzzy'\. Known at the top: aggregator, arms, benchmark"),
        (["model.smollm2_135m.replicas=many"], "replicas"),
        ([*ENDPOINT, "reading=option_text"], "needs engine vllm"),
        (["model=scripted", "model.scripted.batch_invariant=true"], "batch_invariant"),
        (["model=scripted", "replicate_restart=true", "cost.max=1"], "replicate_restart"),
        ([*ENDPOINT, "replicate_restart=true"], "replicate_restart"),
        (
            [
                "model=[scripted,qwen3_8b]",
                "+model@worker=qwen3_8b",
                "+model.qwen3_8b.engine_args.revision=main",
            ],
            "engine_args of model qwen3_8b may not hold revision",
        ),
        (["cluster.chunks_in_flight=0"], "Invalid cluster.chunks_in_flight"),
        (["cluster.models_at_once=0"], "Invalid cluster.models_at_once"),
    ],
)
def test_a_wrong_value_is_refused_before_anything_starts(overrides, words):
    with pytest.raises(
        (ConfigError, OmegaConfBaseException), match="(?s)" + words.replace("?", r"\?")
    ):
        config(*overrides)


@pytest.mark.parametrize(
    ("key", "instead"),
    [
        ("pipeline_parallel_size=2", "model.smollm2_135m.pipeline_parallel_size=<stages>"),
        ("data_parallel_size_local=2", "model.smollm2_135m.replicas=<engines>"),
        ("tokenizer=someone/else", "model.smollm2_135m.path=<hub id or local folder>"),
        ("tokenizer_revision=main", "model.smollm2_135m.revision=<commit>"),
        ("trust_remote_code=true", "model.smollm2_135m.trust_remote_code=true"),
        ("hf_token=secret", "HF_TOKEN in the environment"),
        ("logprobs_mode=raw_logits", "nothing: options are scored"),
    ],
)
def test_engine_args_do_not_decide_what_the_configuration_decides(key, instead):
    with pytest.raises(ConfigError) as error:
        config(f"+model.smollm2_135m.engine_args.{key}")
    name, value = key.split("=")
    assert name in str(error.value)
    assert f"Set {instead}" in str(error.value)
    assert name != "hf_token" or value not in str(error.value)


@pytest.mark.parametrize(
    ("override", "near"),
    [
        ("+benchmrk=arc_easy", "'benchmark'"),
        ("++sed=3", "'seed'"),
        ("+path=my.jsonl", "'benchmark.path' or 'control_benchmark.path' or 'worker.path'"),
        ("+store.formt=arrow", "'store.format'"),
        ("+benchmark.naem=x", "'benchmark.name'"),
        (
            "+model.scripted.temperature=0.9",
            "'model.scripted.preparing.temperature' or 'model.scripted.worker.temperature' or "
            "'model.scripted.solver.temperature'",
        ),
        ("+model.scripted.worker.temprature=0.9", "'model.scripted.worker.temperature'"),
        ("+model.scripted.retry.atempts=3", "'model.scripted.retry.max_attempts'"),
    ],
)
def test_an_added_key_that_nothing_reads_is_refused_with_the_nearest(override, near):
    with pytest.raises(ConfigError, match="Unknown key") as error:
        config("model=scripted", override)
    assert near in str(error.value)


@pytest.mark.parametrize("audit", AUDITS)
def test_the_thresholds_of_the_file_are_the_defaults(audit):
    kind = getattr(part_of(audit, "config"), f"{audit.title()}Thresholds")
    values = load_group("verdict", "default" if audit == "sweep" else audit)
    assert kind.from_mapping(values) == kind() and kind().to_dict() == values
    with pytest.raises(ConfigError, match="alpa"):
        kind.from_mapping({"alpa": 0.1})


@pytest.mark.parametrize("audit", ["perturb", "memory"])
def test_references_are_run_too_and_not_judged(audit):
    config = configured(audit, ["model=scripted", "references=[smollm2_135m]"])
    assert list(config.model) == ["scripted", "smollm2_135m"] and judged(config) == ["scripted"]


def test_one_model_under_two_names_is_refused():
    with pytest.raises(ConfigError, match="Models scripted and again are the same model"):
        config("model=scripted", "+model@model.again=scripted", "model.again.name=again")
    other = config(
        "model=scripted",
        "+model@model.again=scripted",
        "model.again.name=again",
        "model.again.replicas=2",
    )
    assert list(other.model) == ["scripted", "again"]


def test_other_engine_args_are_passed_on():
    given = (
        config("+model.smollm2_135m.engine_args.enable_chunked_prefill=true")
        .model["smollm2_135m"]
        .engine_args
    )
    assert given == {"enforce_eager": True, "block_size": 32, "enable_chunked_prefill": True}


def test_every_engine_arg_that_the_engine_sets_from_an_option_is_refused():
    # What the engine adapter fills in from the configuration, less what engine_args may tune.
    model = ModelConfig(
        name="m", path="p", max_model_len=64, tensor_parallel_size=2, executor="ray"
    )
    filled = engine_args(model, "p", "abc", on_gpu=True, cpu_build=False)
    assert set(filled) - set(DECIDED_ENGINE_ARGS) == {"enable_prefix_caching", "disable_log_stats"}


@pytest.mark.parametrize("audit", AUDITS)
@pytest.mark.parametrize("place", ["file", "file/below/run"])
def test_a_run_directory_that_cannot_be_made_is_refused_first(
    audit: str, place: str, tmp_path: Path
) -> None:
    """Before a benchmark is read or an engine's library is loaded."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="file is a file"):
        configured(audit, ["model=scripted", f"run_dir={tmp_path / place}"])
    assert configured(audit, ["model=scripted", f"run_dir={tmp_path / 'new' / 'run'}"]).run_dir
    assert not (tmp_path / "new").exists()


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
def test_a_run_directory_without_permission_is_refused_first(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    with pytest.raises(ConfigError, match="is not writable"):
        configured("sweep", ["model=scripted", f"run_dir={tmp_path / 'run'}"])
