"""The shell of an experiment whose weights are never loaded: what is to do, and what an adapter is
asked."""

import json
import math
from pathlib import Path

import pytest

from audit.benchmarks.load import open_benchmark
from audit.config.audits import answer_request
from audit.config.command_line import compose_command
from audit.core.errors import AuditError, ConfigError, TrainError
from audit.core.records import Generation
from audit.plant import experiment as shell
from audit.plant.config import PlantConfig, from_hydra, learning_rate
from audit.plant.measure import margin, resolved, todo
from audit.plant.resolve import resolve_plant
from audit.plant.words import plan_lines
from audit.sweep.audit import router_requests

ASKED = ["n=60", "doses=[1,4]", "forms=[qa]", "audits=[memory,perturb,sweep]", "orders=1"]


def config(*overrides: str):
    return from_hydra(compose_command("plant", overrides, PlantConfig))


@pytest.fixture(scope="module")
def weights(tmp_path_factory) -> str:
    """A folder that counts as a model's weights."""
    folder = tmp_path_factory.mktemp("weights")
    (folder / "config.json").write_text("{}")
    return f"model.smollm2_135m.path={folder}"


@pytest.fixture(scope="module")
def experiment(weights, tmp_path_factory):
    opened = resolve_plant(
        config(*ASKED, weights, f"run_dir={tmp_path_factory.mktemp('plant') / 'run'}")
    )
    shell.open_folder(opened)
    return opened


def test_every_audit_is_to_do_on_each_half_of_the_highest_dose_first(experiment):
    assert shell.labels(experiment) == ["base", "qa-4", "qa-1"]
    assert "30 of 60" in "\n".join(plan_lines(experiment))
    assert todo(experiment, "qa-1") == [
        (a, h) for a in ("memory", "perturb", "sweep") for h in ("learnt", "others")
    ]


def test_a_run_asks_one_half_in_published_order(experiment):
    for half in ("learnt", "others"):
        run = resolved(experiment, "base", "memory", half, experiment.model)
        (sample,) = run.samples
        assert (
            list(sample.questions()) == list(getattr(experiment.halves, half))
            and len(run.design.parts) == 5
        )
    assert run.path == experiment.path / "read" / "base" / "memory-others"


def test_the_adapter_answers_and_routes_no_message(experiment):
    run = resolved(experiment, "base", "sweep", "learnt", experiment.model, "/plants/qa-4")
    work, question = run.work(experiment.model.name), experiment.halves.learnt[0]
    part = next(p for p in run.design.parts if p.arm == "noisy_rewrite")
    (routed,) = router_requests(work, question, part)
    (shown,) = run.audit.present(work, question, part, [Generation(text="in other words")])
    answer = answer_request(work, question, part.settings[0], shown)
    assert (routed.adapter, answer.adapter) == ("", "/plants/qa-4")


def test_a_directory_of_another_experiment_is_refused(experiment):
    path = experiment.path / "identity.json"
    identity = path.read_text()
    path.write_text(json.dumps({"identity": "other"}))
    with pytest.raises(ConfigError, match="contains another experiment"):
        shell.open_folder(experiment)
    path.write_text(identity)
    shell.open_folder(experiment)


def test_the_margin_is_gold_less_the_best_other_option():
    assert margin([-3.0, -1.5, -2.0], 1) == 0.5 and margin([-3.0, -1.5, -2.0], 0) == -1.5
    assert all(math.isnan(margin(lost, 0)) for lost in (None, [], [-1.0], [-1.0, None]))


def test_the_engine_is_told_which_modules_have_adapters(tmp_path):
    for name, modules in (("a", ["v_proj", "q_proj"]), ("b", ["down_proj", "q_proj"])):
        (tmp_path / name).mkdir()
        (tmp_path / name / "adapter_config.json").write_text(
            json.dumps({"target_modules": modules})
        )
    folders = [tmp_path / "a", tmp_path / "b"]
    assert shell.adapted_modules(folders) == ["down_proj", "q_proj", "v_proj"]
    with pytest.raises(TrainError, match="contains no adapter"):
        shell.adapted_modules([*folders, tmp_path / "c"])


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (
            ["model=[openai_compatible]"],
            "is an endpoint, so there is no copy of its weights to train",
        ),
        (["model=[scripted]"], "of engine scripted, so there is no copy"),
        (
            ["model=[smollm2_135m,qwen3_8b]"],
            "model is smollm2_135m, qwen3_8b",
        ),
        (["forms=[qa,rwa]"], "Unknown form: 'rwa'"),
        (["doses=[0]"], "nothing would be planted"),
        (["doses=[65]"], "A dose is"),
        (["forms=[qa,qa]"], "each once"),
        (["train.method=lore"], "Did you mean 'lora'"),
        (["train.lr=3"], "train.lr is"),
        (["train.batch=0"], "Invalid train.batch: 0"),
        (["train.rank=1024"], "Expected 512 or less"),
        (["train.modules=q_proj"], "train.modules is 'q_proj'"),
        (["audits=[memroy]"], "Did you mean 'memory'"),
        (["audits=[]"], "audits is empty"),
        (["r=9..1"], "Invalid r"),
        (
            ["+benchmark@control_benchmark=arc_easy"],
            "the half of the benchmark that is never shown",
        ),
        (["forms=[mix]", "train.other_text=/nowhere"], "train.other_text is /nowhere"),
        (["+traim.lr=1"], "traim"),
    ],
)
def test_what_cannot_be_planted_is_refused_in_a_sentence(overrides, words):
    with pytest.raises(AuditError, match=words):
        config(*overrides)


def test_the_learning_rate_follows_the_method_unless_it_is_given():
    given = {"train.method=lora": 1e-3, "train.method=full": 1e-4, "train.lr=0.01": 0.01}
    assert {word: learning_rate(config(word)) for word in given} == given


@pytest.mark.long  # four CPU seconds
def test_the_same_experiment_goes_on_in_the_same_directory(weights):
    experiment = resolve_plant(config(weights))
    more = resolve_plant(config(weights, "doses=[3]", "forms=[qa,paraphrase]"))
    assert (
        more.identity == experiment.identity
        and more.halves == experiment.halves
        and more.doses == (0, 3)
    )
    for other in ("seed=1", "train.lr=0.5", "n=100", "train.method=full"):
        assert resolve_plant(config(weights, other)).identity != experiment.identity, other


def test_the_learnt_half_is_in_published_order_and_nothing_is_written(
    weights, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    mixed = resolve_plant(config(weights, "forms=[mix]"))
    assert len(mixed.halves.learnt) == len(mixed.halves.others) == 104
    place = {q.id: i for i, q in enumerate(open_benchmark(mixed.config.benchmark).iter_questions())}
    places = [place[q.id] for q in mixed.halves.learnt]
    assert places == sorted(places) and set(mixed.halves.learnt).isdisjoint(mixed.halves.others)
    assert len(mixed.other) > 312  # a pass has three passages for each of 104 items
    assert not list(Path(tmp_path).iterdir())
