"""What is refused before anything is trained."""

from pathlib import Path

import pytest

from audit.benchmarks.load import open_benchmark
from audit.command_line import compose_command
from audit.errors import AuditError, BenchmarkError, ConfigError
from audit.plant.config import PlantConfig, from_hydra, learning_rate
from audit.plant.resolve import resolve_plant


def config(*overrides: str):
    return from_hydra(compose_command("plant", overrides, PlantConfig))


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["model=[openai_compatible]"], "is an endpoint: there is no copy of its weights to train"),
        (["model=[scripted]"], "of engine scripted: there is no copy"),
        (["model=[smollm2_135m,qwen3_8b]"], "One model is taught at a time; found smollm2_135m, qwen3_8b"),
        (["forms=[qa,rwa]"], "Unknown form: 'rwa'"),
        (["doses=[0]"], "nothing would be planted"),
        (["train.method=lore"], "Did you mean 'lora'"),
        (["train.lr=3"], "Invalid train.lr"),
        (["train.batch=0"], "Invalid train.batch: 0"),
        (["train.rank=1024"], "rank 512 or less"),
        (["train.modules=q_proj"], "Invalid train.modules: 'q_proj'"),
        (["audits=[memroy]"], "Did you mean 'memory'"),
        (["audits=[]"], "No audit to try"),
        (["r=9..1"], "Invalid r"),
        (["+benchmark@control_benchmark=arc_easy"], "the half that is never shown is the control"),
        (["forms=[mix]", "train.other_text=/nowhere"], "There is no file"),
    ],
)
def test_what_cannot_be_planted_is_refused_in_a_sentence(overrides, words):
    with pytest.raises(AuditError, match=words):
        config(*overrides)


def test_the_learning_rate_follows_the_method_unless_it_is_given():
    assert learning_rate(config()) == 1e-3
    assert learning_rate(config("train.method=full")) == 1e-4
    assert learning_rate(config("train.lr=0.01")) == 0.01


@pytest.fixture(scope="module")
def weights(tmp_path_factory) -> str:
    """A folder that counts as a model's weights."""
    folder = tmp_path_factory.mktemp("weights")
    (folder / "config.json").write_text("{}")
    return f"model.smollm2_135m.path={folder}"


def test_a_benchmark_that_is_too_small_is_refused(weights):
    with pytest.raises(BenchmarkError, match="30 different questions: too few to halve"):
        resolve_plant(config(weights, "n=30"))


def test_the_same_experiment_goes_on_in_the_same_directory(weights):
    one = resolve_plant(config(weights))
    more = resolve_plant(config(weights, "doses=[3]", "forms=[qa,paraphrase]"))
    assert more.identity == one.identity and more.halves == one.halves and more.doses == (0, 3)
    for other in ("seed=1", "train.lr=0.5", "n=100", "train.method=full"):
        assert resolve_plant(config(weights, other)).identity != one.identity, other


def test_the_learnt_half_is_in_published_order_and_nothing_is_written(weights, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = resolve_plant(config(weights, "forms=[mix]"))
    assert len(found.halves.learnt) == len(found.halves.others) == 104
    place = {q.id: i for i, q in enumerate(open_benchmark(found.config.benchmark).iter_questions())}
    places = [place[q.id] for q in found.halves.learnt]
    assert places == sorted(places) and set(found.halves.learnt).isdisjoint(found.halves.others)
    assert len(found.other) > 312  # a pass has three passages for each of 104 items
    assert not list(Path(tmp_path).iterdir())


def test_a_wrong_key_is_named():
    with pytest.raises(ConfigError, match="traim"):
        config("+traim.lr=1")
