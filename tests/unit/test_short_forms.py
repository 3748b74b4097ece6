"""Short forms of what is typed: the same configuration as the long form, and a name that shows
everywhere."""

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf
from typed_here import typed

from audit.config.audits import AUDITS, part_of
from audit.config.base import CONF_DIR, RunConfig, as_file, known_models, load_model_config
from audit.config.command_line import compose_command
from audit.config.short_forms import (
    derived,
    expand,
    hub_name,
    need_model,
    one_call,
    safe_name,
    weight_bytes,
)
from audit.core.errors import ConfigError
from audit.shards.manifest import deciding

LLAMA_70B = {
    "hidden_size": 8192,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "num_hidden_layers": 80,
    "intermediate_size": 28672,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
}
QWEN3_30B_A3B = {
    "hidden_size": 2048,
    "num_attention_heads": 32,
    "head_dim": 128,
    "num_key_value_heads": 4,
    "num_hidden_layers": 48,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_experts": 128,
    "vocab_size": 151936,
}


def composed(audit: str, *words: str) -> RunConfig:
    part = part_of(audit, "config")
    config: RunConfig = part.from_hydra(
        compose_command(audit, words, getattr(part, f"{audit.capitalize()}Config"))
    )
    return config


def plain(config: RunConfig) -> dict[str, Any]:
    return deciding(OmegaConf.to_container(OmegaConf.structured(config)))  # type: ignore[arg-type]


@pytest.mark.parametrize("audit", ["sweep", "memory", "perturb"])
def test_a_file_is_the_long_form_whatever_its_path_holds(audit: str) -> None:
    path = "my data/exam (ü, v1.2) 'final' \"x\".csv"
    short = composed(audit, "model=scripted", f"data={path}")
    quoted = json.dumps(path, ensure_ascii=False)
    name = "exam_v1_2_final_x"
    long = composed(
        audit,
        "model=scripted",
        "benchmark=mcq_file",
        f"benchmark.path={quoted}",
        f"benchmark.name={name}",
    )
    assert short.benchmark.path == path and short.benchmark.name == name
    assert plain(short) == plain(long)  # the fingerprint and the run directory are made of this


def test_a_files_keys_and_name_may_still_be_given() -> None:
    config = composed(
        "sweep", "model=scripted", "data=exam.csv", "benchmark.name=mine", "benchmark.delimiter=';'"
    )
    assert (config.benchmark.name, config.benchmark.delimiter) == ("mine", ";")
    with pytest.raises(ConfigError, match="two benchmarks"):
        expand(["data=exam.csv", "benchmark=mmlu"], "sweep")


@pytest.mark.parametrize("audit", ["sweep", "perturb"])
def test_an_endpoint_goes_by_its_models_name(audit: str) -> None:
    words = (
        "endpoint=http://127.0.0.1:8000/v1",
        "model_id=acme/Big-4.1",
        "api_key_env=ACME",
        "benchmark=elementary",
    )
    config = composed(
        audit,
        *words,
        "model.acme_Big-4_1.worker.max_tokens=40",
        "+cost.prices.acme_Big-4_1={prompt: 1, generated: 2}",
    )
    ((name, model),) = config.model.items()
    assert name == model.name == "acme_Big-4_1" and model.worker.max_tokens == 40
    (endpoint,) = model.endpoints
    assert (endpoint.url, endpoint.model, endpoint.api_key_env) == (
        "http://127.0.0.1:8000/v1",
        "acme/Big-4.1",
        "ACME",
    )
    long = "[{url: 'http://127.0.0.1:8000/v1', model: acme/Big-4.1, api_key_env: ACME}]"
    other = composed(
        audit, "model=openai_compatible", f"model.openai_compatible.endpoints={long}", words[-1]
    )
    longer = {key.replace("openai_compatible", name): value for key, value in plain(other).items()}
    differ = {key for key, value in plain(config).items() if longer[key] != value}
    assert {key.removeprefix(f"model.{name}.") for key in differ} == {"name", "worker.max_tokens"}


HELD_OUT = ("benchmark=elementary", "control_data=unseen.csv")
ENDPOINT = ("endpoint=http://127.0.0.1:8000/v1", "model_id=acme/Big-4.1", *HELD_OUT)


def test_references_beside_an_endpoint_are_models_of_the_same_server(tmp_path: Path) -> None:
    words = (*ENDPOINT, "api_key_env=ACME", "references=[acme/Small,'other:free',llama3_8b]")
    config = composed("memory", *words)
    assert config.references == ["acme_Small", "other_free", "llama3_8b"]  # type: ignore[attr-defined]
    served = [config.model[name].endpoints[0] for name in ("acme_Small", "other_free")]
    assert [reference.model for reference in served] == ["acme/Small", "other:free"]
    assert {(reference.url, reference.api_key_env) for reference in served} == {
        ("http://127.0.0.1:8000/v1", "ACME")
    }
    assert config.model["llama3_8b"].engine == "vllm"


def test_a_reference_on_another_server_is_sent_no_key_of_the_first() -> None:
    words = (*ENDPOINT, "api_key_env=ACME")
    config = composed(
        "memory",
        *words,
        "references=[small@http://127.0.0.1:8000/v1,gpt-4o@https://other.example/v1]",
    )
    small, other = (config.model[name].endpoints[0] for name in ("small", "gpt-4o"))
    assert (small.url, small.api_key_env) == ("http://127.0.0.1:8000/v1", "ACME")
    assert (other.url, other.model, other.api_key_env) == (
        "https://other.example/v1",
        "gpt-4o",
        "GPT_4O_API_KEY",
    )
    without = composed(
        "memory", "model=scripted", *HELD_OUT, "references=[gpt-4o@https://other.example/v1]"
    )
    assert without.model["gpt-4o"].endpoints[0].api_key_env == "GPT_4O_API_KEY"
    with pytest.raises(ConfigError, match="Expected MODEL_ID@URL"):
        composed("memory", *words, "references=['@https://other.example/v1']")


def test_keys_of_a_served_reference_are_changed_as_the_note_says() -> None:
    words = (
        *ENDPOINT,
        "references=[small,large]",
        "model.small.family=oak",
        "model.acme_Big-4_1.family=elm",
    )
    config = composed(
        "memory", *words, "model.small.released=2025-10", "model.large.worker.max_tokens=7"
    )
    assert [config.model[name].family for name in ("acme_Big-4_1", "small", "large")] == [
        "elm",
        "oak",
        None,
    ]
    assert (config.model["small"].released, config.model["large"].worker.max_tokens) == (
        "2025-10",
        7,
    )
    with pytest.raises(
        ConfigError, match=r"key of model\.small: 'familly'\. Did you mean 'family'"
    ):
        composed("memory", *ENDPOINT, "references=[small]", "model.small.familly=oak")


def test_a_key_of_a_model_that_is_not_named_lists_the_references_too() -> None:
    words = (*ENDPOINT, "references=[ref-1,b.2@http://h/v1]", "model.ref-3.family=oak")
    with one_call(), pytest.raises(ConfigError) as error:
        composed("memory", *words)
    message = str(error.value)
    assert "'model.ref-3'" in message and "ref-3 is neither model_id nor in references=" in message
    for name in ("acme_Big-4_1", "ref-1", "b_2"):
        assert f"model.{name}" in message


def test_without_an_endpoint_an_unknown_reference_is_still_refused() -> None:
    with pytest.raises(ConfigError, match="nobody"):
        composed("memory", "model=scripted", "references=[nobody]")


def test_held_out_items_of_a_file_are_the_long_form() -> None:
    short = composed("memory", "model=scripted", "data=my exam.csv", "control_data=b/un seen.csv")
    long = composed(
        "memory",
        "model=scripted",
        "data=my exam.csv",
        "control_benchmark=mcq_file",
        "control_benchmark.path='b/un seen.csv'",
        "control_benchmark.name=un_seen",
    )
    assert short.control_benchmark is not None and short.control_benchmark.path == "b/un seen.csv"
    assert plain(short) == plain(long)
    for words in (["control_data="], ["control_data=a.csv", "control_benchmark=gsm1k"]):
        with pytest.raises(ConfigError, match="Expected"):
            expand([*words, "model=scripted"], "memory")


@pytest.mark.parametrize(
    "words", [[], ["data=exam.csv", "n=all"], ["benchmark=mmlu"], ["references=[a]"]]
)
def test_a_command_that_names_no_model_asks_for_one(words: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"(?s)model=NAME.*model=hf:.*endpoint=URL.*smollm2_135m"):
        need_model(words)


@pytest.mark.parametrize(
    "words",
    [["model=scripted"], ["endpoint=http://h/v1", "model_id=m"], ["--cfg", "job"], ["edits=show"]],
)
def test_a_named_model_an_option_or_a_command_that_asks_none_goes_on(words: list[str]) -> None:
    need_model(words)


def test_what_is_told_of_an_endpoint_holds_no_password() -> None:
    _, notes = expand(["endpoint=http://me:secret@host/v1?k=secret", "model_id=m"], "sweep")
    assert not any("secret" in note for note in notes)
    with pytest.raises(ConfigError, match="has credentials"):
        composed("sweep", "endpoint=http://me:secret@host/v1", "model_id=m", "benchmark=elementary")


@pytest.mark.parametrize(
    "words",
    [
        ["endpoint=http://h/v1"],
        ["model_id=m"],
        ["api_key_env=KEY", "model=scripted"],
        ["endpoint=http://h/v1", "model_id=m", "model=scripted"],
        ["model=hf:Qwen3-8B"],
        ["model=hf:"],
        ["model=[scripted,hf:a b/c]"],
    ],
)
def test_half_a_form_is_refused_with_a_whole_one(words: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"Expected (endpoint=http|hf:ORG/NAME)"):
        expand(words, "sweep")


def test_names_have_nothing_that_a_key_or_a_file_could_not() -> None:
    assert safe_name("a/b:c d.e") == "a_b_c_d_e"
    assert safe_name("../..") == "unnamed" and safe_name("scripted") == "scripted_"


def test_a_hub_model_of_conf_is_that_configuration() -> None:
    words, notes = expand(["model=[hf:Qwen/Qwen3-8B,scripted]", "benchmark=elementary"], "sweep")
    assert words[0] == "model=[qwen3_8b,scripted]" and "conf/model/qwen3_8b.yaml" in notes[0]
    assert {hub_name(load_model_config(name).path) for name in ("llama3_70b", "mistral_7b")} <= set(
        known_models()
    )


@pytest.mark.long  # four CPU seconds
def test_references_of_the_hub_take_the_same_form_and_the_file_kept_of_them_is_that_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    words = (
        "model=scripted",
        "benchmark=elementary",
        "references=[hf:acme/One-7B,hf:acme/Two,llama3_8b]",
    )
    config = composed("memory", *words)
    assert [model.path for model in config.model.values()][1:3] == ["acme/One-7B", "acme/Two"]
    assert config.references == list(config.model)[1:] == ["acme_One-7B", "acme_Two", "llama3_8b"]  # type: ignore[attr-defined]
    changed = composed(
        "sweep", "model=hf:acme/One-7B", "benchmark=elementary", "model.acme_One-7B.dtype=float16"
    )
    model = changed.model["acme_One-7B"]
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine.yaml").write_text(as_file("acme_One-7B", asdict(model)))
    composition = composed(
        "sweep", f"hydra.searchpath=[file://{tmp_path}]", "model=mine", "benchmark=elementary"
    )
    assert composition.model == {"acme_One-7B": model} and model.dtype == "float16"


def test_the_size_of_the_weights_decides_the_gpus_as_in_the_shipped_configurations() -> None:
    # 80 x (2 x 8192 x 128 x 72 + 3 x 8192 x 28672) + 2 x 128256 x 8192 = 70.6e9 parameters
    assert weight_bytes(LLAMA_70B) == pytest.approx(2 * 70.6e9, rel=0.005)
    assert weight_bytes(QWEN3_30B_A3B) == pytest.approx(2 * 30.5e9, rel=0.005)
    assert weight_bytes(LLAMA_70B, {"bits": 4}) == pytest.approx(70.6e9 / 2, rel=0.005)
    assert (
        weight_bytes({"n_embd": 768}) is None
        and weight_bytes({**LLAMA_70B, "hidden_size": "8192"}) is None
    )
    for config, name in ((LLAMA_70B, "llama3_70b"), (QWEN3_30B_A3B, "qwen3_30b_a3b")):
        shipped = load_model_config(name)
        fields = derived(shipped.path, None, config, chats=True)
        assert fields["tensor_parallel_size"] == shipped.tensor_parallel_size
        assert (fields["reading"], fields["max_model_len"]) == (
            shipped.reading,
            shipped.max_model_len,
        )


def test_what_the_repository_does_not_tell_is_assumed() -> None:
    fields = derived("a/b", "v1", None, chats=True)
    assert (fields["tensor_parallel_size"], fields["reading"], fields["revision"]) == (
        1,
        "letter",
        "v1",
    )
    assert "trust_remote_code" not in fields  # the schema's false
    assert (
        derived("a/b", None, {"max_position_embeddings": 2048}, chats=True)["max_model_len"] == 2048
    )


def test_a_base_model_in_the_cache_is_read_by_likelihood_and_nothing_needs_a_network(
    tmp_path: Path,
) -> None:
    snapshot = tmp_path / "hub" / "models--acme--Base-7B" / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs" / "main").write_text("0" * 40)
    (snapshot / "config.json").write_text(
        json.dumps({**LLAMA_70B, "max_position_embeddings": 4096})
    )
    (snapshot / "tokenizer_config.json").write_text("{}")
    code = (
        "import sys; from audit.config.command_line import compose_command; from audit.sweep.config import *\n"
        "words = ['model=[hf:acme/Base-7B,hf:acme/Other]', 'n=5', 'model.acme_Other.dtype=float16']\n"
        "config = from_hydra(compose_command('sweep', words, SweepConfig))\n"
        "print(config.benchmark.name, *((m.name, m.path, m.reading, m.tensor_parallel_size, m.max_model_len, m.dtype,\n"
        "m.trust_remote_code) for m in config.model.values()), 'vllm' in sys.modules, sep='|')"
    )
    env = {**os.environ, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip().split("|") == [
        "mmlu",
        "('acme_Base-7B', 'acme/Base-7B', 'option_text', 4, 4096, 'auto', False)",
        "('acme_Other', 'acme/Other', 'letter', 1, 16384, 'float16', False)",
        "False",
    ]


@pytest.mark.parametrize(
    ("audit", "words", "benchmark"),
    [
        ("sweep", ["model=llama3_70b", "r=1..9"], "mmlu"),
        ("sweep", ["model=[scripted,qwen3_8b]"], "mmlu"),
        ("sweep", ["endpoint=http://h/v1", "model_id=m"], "mmlu"),
        ("memory", ["model=llama3_8b"], "mmlu"),
        ("sweep", ["model=llama3_70b", "benchmark.path=/data/mmlu"], "mmlu"),
        ("sweep", ["model=llama3_70b", "benchmark=arc_easy"], "arc_easy"),
        ("sweep", ["model=smollm2_135m"], "elementary"),
        ("sweep", ["model=[scripted,smollm2_135m]"], "elementary"),
        ("sweep", ["n=20"], "elementary"),
        ("perturb", ["model=llama3_8b"], "elementary"),
        ("validity", ["model=llama3_8b"], "contrast"),
    ],
)
def test_a_real_model_is_asked_a_real_benchmark(
    audit: str, words: list[str], benchmark: str
) -> None:
    assert composed(audit, *words).benchmark.name == benchmark
    notes = expand(words, audit)[1]
    mmlu_notes = [note for note in notes if note.startswith("benchmark mmlu")]
    assert mmlu_notes == notes[: len(mmlu_notes)] and len(mmlu_notes) == (benchmark == "mmlu")


def test_the_default_is_pinned_and_every_audit_composes() -> None:
    config = composed("sweep", "model=llama3_70b")
    assert config.benchmark.hub == "cais/mmlu" and len(config.benchmark.revision or "") == 40
    assert all(
        composed(audit, "model=scripted").benchmark.name in ("elementary", "contrast")
        for audit in AUDITS
    )


def test_the_papers_design_with_our_controls_and_what_is_typed_wins() -> None:
    config = composed("sweep", "preset=song2026", "model=qwen3_8b", "n=1000")
    assert (config.n, config.seed, config.r, config.draws, config.replicates) == (
        1000,
        42,
        "1..9",
        "independent",
        1,
    )
    assert (config.clean_replicates, config.noisy_replicates, config.ensemble_control) == (
        3,
        2,
        True,
    )
    assert config.protocol["name"] == "song2026" and config.benchmark.name == "mmlu"
    design = part_of("sweep", "config").design_of(config)
    # direct, three clean runs, two runs of noise and one of the ensemble control at r = 1..9 (r = 1
    # is the clean run)
    assert len(design.settings) == 1 + 3 + 2 * 9 + 8
    with pytest.raises(ConfigError, match="song2026"):
        composed("sweep", "preset=song2025", "model=qwen3_8b")


@pytest.mark.long  # seven CPU seconds
def test_a_folder_of_ones_own_serves_plans_suites_references_and_the_data_doctor(
    tmp_path: Path,
) -> None:
    (tmp_path / "my conf" / "model").mkdir(parents=True)
    shipped = (CONF_DIR / "model" / "scripted.yaml").read_text()
    text = shipped.replace("model.scripted", "model.mine").replace("name: scripted", "name: mine")
    (tmp_path / "my conf" / "model" / "mine.yaml").write_text(
        text.replace("direct: 0.70", "direct: 0.71")
    )
    (tmp_path / "exam.jsonl").write_text(
        '{"question": "1 + 1?", "choices": ["2", "3"], "answer": 0}\n'
    )
    where = ("--config-dir", str(tmp_path / "my conf"))
    pinned = ("model=mine", "model_version=scripted", "plan=true")
    for words in (
        ("plan", *where, "model=mine", "benchmark=elementary", "n=5"),
        ("suite", "demo", *where, *pinned),
        ("suite", "demo", *pinned, *where),
        ("data", "show", "exam.jsonl", *where),
    ):
        done = typed(*words, folder=tmp_path)
        assert done.code == 0, done.err
    config = composed(
        "memory",
        f"hydra.searchpath=[{tmp_path / 'my conf'}]",
        "model=scripted",
        "references=[mine]",
    )
    assert config.model["mine"].scripted.accuracy["direct"] == 0.71
