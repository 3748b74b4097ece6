"""jobs/ and cluster/ are valid against their schemas, agree with each other, and a misspelt field
fails."""

import importlib.util
import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import jsonschema
import multidict
import pytest
import yaml
import yarl
from pathspec import PathSpec
from typed_here import built_wheel

ROOT = Path(__file__).resolve().parents[2]
KUBERAY_FILES = sorted((ROOT / "cluster" / "kuberay").glob("*.yaml"))
RAY_FILES = sorted((ROOT / "cluster").glob("ray-cluster*.yaml"))
JOB_SCRIPTS = sorted((ROOT / "jobs").glob("*.sh"))
RUNTIME_ENVS = sorted((ROOT / "jobs").glob("runtime_env*.yaml"))
HUB_MODELS = (
    "llama3_70b",
    "llama3_8b",
    "llama3_2_3b",
    "qwen3_8b",
    "qwen3_30b_a3b",
    "qwen3_next_80b",
    "qwen2_5_7b",
    "mistral_7b",
)


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def kuberay_validator() -> jsonschema.Draft202012Validator:
    schema = json.loads((ROOT / "tests" / "schemas" / "kuberay_v1.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def autoscaler_validator() -> jsonschema.Draft7Validator:
    """Ray's own schema, found without importing ray."""
    (ray,) = importlib.util.find_spec("ray").submodule_search_locations
    return jsonschema.Draft7Validator(
        json.loads((Path(ray) / "autoscaler" / "ray-schema.json").read_text())
    )


def cluster_spec(document: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = document["spec"]
    return spec["rayClusterSpec"] if document["kind"] == "RayJob" else spec


def pods(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The pod templates of a RayCluster or RayJob: head first."""
    spec = cluster_spec(document)
    return [
        spec["headGroupSpec"]["template"],
        *(group["template"] for group in spec["workerGroupSpecs"]),
    ]


def ray_documents() -> list[dict[str, Any]]:
    return [d for d in map(load, KUBERAY_FILES) if d["kind"] != "PersistentVolumeClaim"]


# --- KubeRay
# ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", KUBERAY_FILES, ids=lambda p: p.name)
def test_kuberay_manifests_are_valid(path: Path) -> None:
    kuberay_validator().validate(load(path))


def _misspelt(fields: dict[str, Any], name: str) -> None:
    fields[name[:-1]] = fields.pop(name)


SPOIL: dict[str, Callable[[dict[str, Any]], object]] = {
    "a number, not a string": lambda d: cluster_spec(d)["headGroupSpec"]["rayStartParams"].update(
        {"num-cpus": 0}
    ),
    "a misspelt field of a container": lambda d: _misspelt(
        pods(d)[1]["spec"]["containers"][0], "volumeMounts"
    ),
    "an unknown way to authenticate": lambda d: cluster_spec(d)["authOptions"].update(mode="on"),
}


@pytest.mark.parametrize("name", ["raycluster-gpu.yaml", "rayjob-cpu.yaml"])
@pytest.mark.parametrize("spoil", SPOIL.values(), ids=SPOIL)
def test_a_spoiled_manifest_fails(name: str, spoil: Callable[[dict[str, Any]], object]) -> None:
    document = load(ROOT / "cluster" / "kuberay" / name)
    spoil(document)
    with pytest.raises(jsonschema.ValidationError):
        kuberay_validator().validate(document)


def test_every_pod_mounts_the_runs_volume_and_is_scraped() -> None:
    claim = load(ROOT / "cluster" / "kuberay" / "storage.yaml")
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]  # workers on any node write shards
    documents = ray_documents()
    assert len(documents) == 5
    for document in documents:
        for pod in pods(document):
            volumes = {v["name"]: v for v in pod["spec"]["volumes"]}
            container = pod["spec"]["containers"][0]
            mounts = {m["mountPath"]: m["name"] for m in container["volumeMounts"]}
            assert set(mounts.values()) == set(
                volumes
            )  # every volume is mounted, every mount has its volume
            assert (
                volumes[mounts["/runs"]]["persistentVolumeClaim"]["claimName"]
                == claim["metadata"]["name"]
            )
            note = pod["metadata"]["annotations"]
            ports = {p["name"]: p["containerPort"] for p in container["ports"]}
            assert note["prometheus.io/scrape"] == "true"
            assert int(note["prometheus.io/port"]) == ports["metrics"]


def test_gpu_workers_hold_the_model_they_run_and_cpu_workers_ask_for_no_gpu() -> None:
    for document in ray_documents():
        limits = pods(document)[1]["spec"]["containers"][0]["resources"]["limits"]
        if "gpu" in document["metadata"]["name"]:
            group = cluster_spec(document)["workerGroupSpecs"][0]
            assert (
                group["minReplicas"] >= 1
            )  # placement looks at the GPUs that are there when the sweep starts
            assert (
                int(limits["nvidia.com/gpu"])
                >= load(ROOT / "conf/model/llama3_70b.yaml")["tensor_parallel_size"]
            )
        else:
            assert "nvidia.com/gpu" not in limits


def test_ray_version_is_one_everywhere() -> None:
    versions = {cluster_spec(d)["rayVersion"] for d in ray_documents()}
    in_dockerfile = set(
        re.findall(r"rayproject/ray:([\d.]+)-", (ROOT / "cluster" / "Dockerfile").read_text())
    )
    assert versions == in_dockerfile
    pinned: set[str] = set()
    for path in (ROOT / "requirements").glob("[cg]pu.txt"):
        pinned |= set(
            re.findall(r"^ray(?:\[[^\]]*\])?==([\d.]+)", path.read_text(), flags=re.MULTILINE)
        )
    assert pinned <= versions


# --- Ray's cluster launcher
# -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", RAY_FILES, ids=lambda p: p.name)
def test_cluster_yaml_is_valid_against_rays_own_schema(path: Path) -> None:
    document = load(path)
    autoscaler_validator().validate(document)
    if document["provider"]["type"] == "local":
        assert document["max_workers"] == len(document["provider"]["worker_ips"])
        assert "available_node_types" not in document  # Ray refuses it for machines of one's own
    else:
        assert document["head_node_type"] in document["available_node_types"]
    for spoilt in ({"worker_setup_command": []}, {"cluster-name": []}, {"max_workers": -1}):
        with pytest.raises(jsonschema.ValidationError):
            autoscaler_validator().validate({**document, **spoilt})


@pytest.mark.parametrize("path", RAY_FILES, ids=lambda p: p.name)
def test_every_node_starts_with_the_token(path: Path) -> None:
    document = load(path)
    for commands in (document["head_start_ray_commands"], document["worker_start_ray_commands"]):
        (start,) = [c for c in commands if "ray start" in c]
        assert "RAY_AUTH_MODE=token" in start
        assert "--metrics-export-port=8080" in start
        assert "HF_HOME=/runs/huggingface" in start  # weights are downloaded once for all nodes
        assert ".audit_env" in start  # HF_TOKEN comes from the environment, and from nowhere else
    assert any(target.endswith(".ray/auth_token") for target in document["file_mounts"])


# --- jobs
# -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", RUNTIME_ENVS, ids=lambda p: p.name)
def test_runtime_env_has_known_fields_and_no_secret(path: Path) -> None:
    document = load(path)
    assert set(document) <= {"working_dir", "excludes", "env_vars", "pip", "uv", "config"}
    assert document["working_dir"] == "."
    assert all(isinstance(v, str) for v in document["env_vars"].values())  # Ray refuses other types
    assert not [k for k in document["env_vars"] if re.search(r"TOKEN$|KEY|SECRET|PASSWORD", k)]
    assert {"/.venv/", "/outputs/"} <= set(document["excludes"])
    assert not {"/audit/", "/conf/", "/requirements/", "/jobs/"} & set(document["excludes"])


@pytest.mark.parametrize("path", RUNTIME_ENVS, ids=lambda p: p.name)
def test_a_submitted_job_takes_the_shipped_data_along(path: Path) -> None:
    excluded = PathSpec.from_lines("gitwildmatch", load(path)["excludes"])  # as Ray reads them
    shipped = [
        str(p.relative_to(ROOT)) for p in (ROOT / "audit" / "data").rglob("*") if p.is_file()
    ]
    assert any(name.endswith(".arrow") for name in shipped)
    shipped.append("docs/CHRONOLOGY.jsonl")  # every evidence pack holds it
    assert [name for name in shipped if excluded.match_file(name)] == []
    assert excluded.match_file("runs/mine/shards/part-0.arrow")


def test_the_image_has_what_its_install_needs(tmp_path: Path) -> None:
    copied = re.findall(
        r"^COPY --chown=\S+ (.+) \S+$", (ROOT / "cluster/Dockerfile").read_text(), re.MULTILINE
    )
    for name in " ".join(copied).split():
        source, target = ROOT / name, tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(source, target, ignore=ignore) if source.is_dir() else shutil.copy(
            source, target
        )
    assert built_wheel(tmp_path / "dist", tmp_path).is_file()


def _stub_ray(folder: Path) -> dict[str, str]:
    """A `ray` on PATH that writes its arguments as JSON: the script is run for real up to that
    point."""
    stub = folder / "ray"
    stub.write_text(f"#!{sys.executable}\nimport json, sys\nprint(json.dumps(sys.argv[1:]))\n")
    stub.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


@pytest.mark.parametrize("path", JOB_SCRIPTS, ids=lambda p: p.name)
def test_job_scripts_submit_the_sweep(path: Path, tmp_path: Path) -> None:
    env = {**_stub_ray(tmp_path), "RUN_DIR": "/runs/x y"}
    done = subprocess.run(
        [path, "seed=7"], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    arguments = json.loads(done.stdout)
    assert arguments[:2] == ["job", "submit"]
    assert (ROOT / arguments[arguments.index("--runtime-env") + 1]).is_file()
    command = arguments[arguments.index("--") + 1 :]
    assert command[:3] == ["python", "-m", "audit.sweep"]
    assert "run_dir=/runs/x y" in command  # quoted all the way
    assert command[-1] == "seed=7"


@pytest.mark.parametrize("name", ["llama3_70b.sh", "panel.sh", "openai_endpoints.sh"])
def test_job_scripts_ask_for_a_run_dir(name: str, tmp_path: Path) -> None:
    env = {k: v for k, v in _stub_ray(tmp_path).items() if k != "RUN_DIR"}
    done = subprocess.run(
        [ROOT / "jobs" / name], env=env, capture_output=True, text=True, timeout=300
    )
    assert done.returncode != 0
    assert "RUN_DIR=/runs/" in done.stderr  # the message shows an example
    assert done.stdout == ""


def _sweep_overrides(command: str) -> list[str]:
    """What follows `python -m audit.sweep` (or `audit plan`) in a shell command."""
    words = shlex.split(command.replace("\\\n", " "), comments=True)
    if words[:2] == ["bash", "-c"]:  # the sweep is the first of its commands
        words = shlex.split(words[2].split("&&")[0])
    at = next(i for i, word in enumerate(words) if word in ("audit.sweep", "sweep", "plan"))
    return [word for word in words[at + 1 :] if word != "$@"]


def _sweeps_in_the_repository() -> list[Any]:
    """The overrides of every sweep in jobs/*.sh, in the RayJobs and in the documents, as pytest
    parameters."""
    commands = []
    for path in JOB_SCRIPTS:
        commands.append((path.name, path.read_text().split("exec ray job submit", 1)[1]))
    for document in ray_documents():
        if document["kind"] == "RayJob":
            commands.append((document["metadata"]["name"], document["spec"]["entrypoint"]))
    pages = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))
    for name in ("README.md", "jobs/README.md", *pages):
        text = (ROOT / name).read_text().replace("\\\n", " ")
        lines = re.findall(
            r"^ {4,}.*(?:python -m audit\.|audit )sweep (.*=.*)$", text, re.MULTILINE
        )
        whole = [
            line for line in lines if not re.search(r"\.\.\.|<|model=[A-Z]+\b", line)
        ]  # others leave words open
        commands += [(f"{name}:{i}", f"audit.sweep {line}") for i, line in enumerate(whole)]
    assert len(commands) >= 10
    return [pytest.param(_sweep_overrides(command), id=name) for name, command in commands]


@pytest.mark.parametrize("overrides", _sweeps_in_the_repository())
def test_every_sweep_that_is_written_down_is_a_valid_configuration(
    overrides: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from audit.config.command_line import configured

    assert overrides
    monkeypatch.setattr("audit.config.base.sandbox_python", lambda: sys.executable)
    config = configured("sweep", [o.replace("$RUN_DIR", "/runs/x") for o in overrides])
    wanted = dict(o.split("=", 1) for o in overrides)
    if "model" in wanted and "hf:" not in wanted["model"]:
        assert list(config.model) == wanted["model"].strip("[]").split(",")
    if "cluster" in wanted:
        assert config.cluster.address == "auto"


# --- jobs/submit.py
# ---------------------------------------------------------------------------------------------------


def submit_module() -> Any:
    return SimpleNamespace(**runpy.run_path(str(ROOT / "jobs" / "submit.py")))


@dataclass
class Info:
    status: str
    driver_exit_code: int | None = None
    message: str = ""


CLOSED = RuntimeError("WebSocket connection closed unexpectedly with close code 1006")


@dataclass
class FakeJobs:
    """A job whose log is cut `breaks` times while it runs, every other time by `lost`; a new
    connection starts at the log's beginning. gone: the head does not answer."""

    log: list[str]
    final: Info
    breaks: int = 0
    lost: Exception = CLOSED
    gone: bool = False
    connections: int = field(default=0, init=False)

    async def tail_job_logs(self, job_id: str) -> AsyncIterator[str]:
        self.connections += 1
        broken = self.connections <= self.breaks
        for chunk in self.log[: self.connections if broken else None]:
            yield chunk
        if broken and self.connections % 2:
            raise self.lost

    def get_job_info(self, job_id: str) -> Info:
        if self.gone:
            raise ConnectionError("Failed to connect to Ray at address: http://HEAD:8265.")
        return self.final if self.connections > self.breaks else Info("RUNNING")


def follow(jobs: FakeJobs) -> tuple[int, list[str], list[float]]:
    """The exit code, what was shown, and how long it waited each time."""
    shown: list[str] = []
    slept: list[float] = []
    return submit_module().follow(jobs, "job", shown.append, slept.append), shown, slept


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        (Info("SUCCEEDED", 0), 0),
        (Info("FAILED", 4), 4),  # verdict: withheld, brittle, underpowered
        (
            Info("FAILED", None, "runtime_env setup failed: no such package"),
            1,
        ),  # no driver ever ran
        (Info("FAILED", -9), 137),  # killed, out of memory
        (Info("STOPPED", -15), 130),
    ],
)
def test_submit_exits_with_the_drivers_code_and_says_why(info: Info, expected: int) -> None:
    code, shown, _ = follow(FakeJobs(["a\n"], info))
    assert code == expected and info.message in "".join(shown)


def test_submit_shows_every_log_line_once_although_the_connection_breaks() -> None:
    jobs = FakeJobs(["one\n", "two\n", "three\n"], Info("SUCCEEDED", 0), breaks=2)
    code, shown, slept = follow(jobs)
    assert code == 0 and [t for t in shown if "connection lost" not in t] == jobs.log
    assert len(slept) == 2  # once after each connection that ended before the job did


URL = yarl.URL("http://HEAD:8265")
ASKED = aiohttp.RequestInfo(URL, "GET", multidict.CIMultiDictProxy(multidict.CIMultiDict()), URL)


@pytest.mark.parametrize(
    "lost",
    [
        aiohttp.ServerDisconnectedError(),
        aiohttp.WSServerHandshakeError(ASKED, (), status=502, message="Invalid response status"),
    ],
    ids=["a socket that is dropped", "a proxy that takes none"],
)
def test_submit_outlives_what_rays_client_lets_through(lost: Exception) -> None:
    """It is told once, not every two seconds."""
    code, shown, _ = follow(FakeJobs(["one\n"], Info("FAILED", 3), breaks=4, lost=lost))
    assert code == 3
    assert [str(lost) in text for text in shown] == [False, True] and shown[0] == "one\n"


def test_submit_says_once_and_in_a_sentence_that_the_head_is_gone() -> None:
    code, shown, slept = follow(FakeJobs(["one\n"], Info("RUNNING"), breaks=99, gone=True))
    assert code == 1 and sum(slept) == pytest.approx(58)
    assert len([line for line in shown if "no longer answers" in line]) == 1
    assert sum("trying again" in line for line in shown) == 1


def test_submit_splits_its_own_options_from_the_command() -> None:
    module = submit_module()
    assert not re.search(
        r"^(import|from) (ray|yaml)", (ROOT / "jobs/submit.py").read_text(), re.M
    )  # for --help
    args = module.parse(["--no-wait", "--", "python", "-m", "audit.sweep", "--help"])
    assert args.command == ["python", "-m", "audit.sweep", "--help"]
    assert load(args.runtime_env)["working_dir"] == "."
    with pytest.raises(SystemExit):
        module.parse([])


# --- model and cluster configs
# ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HUB_MODELS)
def test_hub_model_configs(name: str) -> None:
    path = ROOT / "conf" / "model" / f"{name}.yaml"
    assert path.read_text().splitlines()[0] == f"# @package model.{name}"
    config = load(path)
    assert config["name"] == name
    assert re.fullmatch(r"[\w.-]+/[\w.-]+", config["path"])
    assert config["revision"] is None or re.fullmatch(r"[0-9a-f]{40}", config["revision"])
    assert config["trust_remote_code"] is False
    # Nine router messages and the worker's answer must fit beside the question and the template.
    assert (
        9 * config["preparing"]["max_tokens"] + config["worker"]["max_tokens"] + 4096
        <= config["max_model_len"]
    )
    assert (
        set(config["preparing"]) == set(config["worker"]) == {"max_tokens", "temperature", "top_p"}
    )


def test_the_public_pair_differs_in_its_weights_alone() -> None:
    from jinja2 import Template

    standard, perturbed = (
        load(ROOT / f"conf/model/hubble_1b_{kind}.yaml") for kind in ("standard", "perturbed")
    )
    assert {key for key in standard if standard[key] != perturbed[key]} == {"name", "path"}
    assert standard.keys() == perturbed.keys()
    template = Template(
        standard["chat_template_kwargs"]["chat_template"]
    )  # no chat model: the text as it stands
    assert template.render(messages=[{"role": "user", "content": "Which?"}]) == "Which?\n"


@pytest.mark.parametrize(
    "path", sorted((ROOT / "conf" / "cluster").glob("*.yaml")), ids=lambda p: p.stem
)
def test_cluster_configs(path: Path) -> None:
    config = load(path)
    assert {"address", "num_cpus", "num_gpus", "dashboard", "runtime_env"} <= set(config)
    if config["address"] is not None:  # these count only where Ray is started, and would be ignored
        assert (config["num_cpus"], config["num_gpus"], config["dashboard"]) == (None, None, False)


# --- documents
# --------------------------------------------------------------------------------------------------------


def test_every_verdict_is_documented() -> None:
    from audit.sweep.vocabulary import Verdict

    text = (ROOT / "docs/understand/sweep.md").read_text().split("## Verdicts", 1)[1]
    assert set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)) == {str(v) for v in Verdict}


@pytest.mark.parametrize(
    "path", [path for path in KUBERAY_FILES if path.name.startswith("ray")], ids=lambda p: p.name
)
def test_every_pod_has_shared_memory_for_rays_object_store(path: Path) -> None:
    """Kubernetes gives a pod 64 MiB of /dev/shm; Ray then keeps its objects on the disk."""
    for pod in pods(load(path)):
        (container,) = pod["spec"]["containers"]
        mounted = {
            volumeMount["mountPath"]: volumeMount["name"]
            for volumeMount in container["volumeMounts"]
        }
        (volume,) = [
            volume for volume in pod["spec"]["volumes"] if volume["name"] == mounted["/dev/shm"]
        ]
        assert volume["emptyDir"]["medium"] == "Memory" and volume["emptyDir"][
            "sizeLimit"
        ].endswith("Gi")
