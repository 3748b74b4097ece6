"""The shell of an experiment with the scripted engine in place of a trained model: every audit is asked, read, and
told of, and what is done is not done again."""

import asyncio
import json

import pytest
from hydra import compose, initialize_config_dir

from audit.config import CONF_DIR
from audit.engines.config import ModelConfig, ScriptedConfig
from audit.engines.scripted import ScriptedEngine
from audit.errors import ConfigError, TrainError
from audit.plant import experiment as shell
from audit.plant.config import from_hydra
from audit.plant.figure import write_figure
from audit.plant.measure import Reading
from audit.plant.resolve import resolve_plant
from audit.plant.words import plan_lines, result_of

ASKED = ["n=60", "doses=[1,4]", "forms=[qa]", "audits=[memory,perturb,sweep]", "orders=1"]


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    """An experiment of 60 items whose weights are never loaded."""
    folder = tmp_path_factory.mktemp("plant")
    (folder / "config.json").write_text("{}")
    with initialize_config_dir(str(CONF_DIR), version_base="1.3"):
        config = from_hydra(
            compose("plant", overrides=[*ASKED, f"model.smollm2_135m.path={folder}", f"run_dir={folder / 'run'}"])
        )
    found = resolve_plant(config)
    shell.open_folder(found)
    return found


@pytest.fixture(scope="module")
def readings(one):
    """Of the base, and of one plant that knows every answer."""
    out = {}
    for label, accuracy in (("base", 0.6), ("qa-4", 1.0)):
        script = ScriptedConfig(accuracy=dict.fromkeys(("score", "original", "variant", "direct"), accuracy))
        engine = ScriptedEngine(
            ModelConfig(name="m", engine="scripted", scripted=script), "m/0", {q.id: q for q in one.halves.questions}
        )
        for audit in one.config.audits:
            reading = shell._reading(one, audit, lambda asked, e=engine: asyncio.run(e.run(asked)), "")
            reading.save(shell._file(one, label, audit))
        out[label] = shell.read(one, label)
    return out


def test_every_audit_reads_every_item(one, readings):
    reading = readings["qa-4"]
    n = len(one.halves.questions)
    assert set(reading.correct) == {
        "score/0", "original/0", "variant/1", "variant/2", "variant/3", "direct/0", "forward_full/1", "noisy_rewrite/1",
    }  # fmt: skip
    assert all(len(values) == n for values in reading.correct.values()) and reading.errors == 0
    assert reading.correct["score/0"] == [1.0] * n
    assert {k: len(v) for k, v in reading.text.items()} == {"item": n, "half": n, "wrong": n}
    assert set(reading.order) == {"learnt", "others"} and all(len(row) == 2 for row in reading.order["learnt"])
    assert len(reading.options) == n and len(reading.options[0]) == 2


def test_the_result_names_every_indicator_and_says_its_sentence(one, readings):
    found, text = result_of(one, readings, n_splits=20)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    names = {f["indicator"] for f in found["plants"][1]["found"]}
    assert {"gap", "completion_item", "order", "options", "wording_drop", "router_gain"} <= names
    assert found["learnt_items"] == 30 and found["other_items"] == 30
    assert "- sweep: " in text and text.startswith("| form |")
    write_figure(found, one.path / "figure.png")
    assert (one.path / "figure.png").stat().st_size > 5000


def test_what_was_measured_is_not_measured_again(one, readings):
    assert shell._todo(one, "base") == [] and shell._todo(one, "qa-1") == ["memory", "perturb", "sweep"]
    assert shell.labels(one) == ["base", "qa-4", "qa-1"]


def test_a_directory_of_another_experiment_is_refused(one):
    path = one.path / "identity.json"
    kept = path.read_text()
    path.write_text(json.dumps({"identity": "other"}))
    with pytest.raises(ConfigError, match="holds another experiment"):
        shell.open_folder(one)
    path.write_text(kept)
    shell.open_folder(one)


def test_the_plan_says_what_would_be_trained_and_asked(one):
    lines = "\n".join(plan_lines(one))
    assert "30 of 60" in lines
    assert Reading() == Reading.load(_saved(one))


def _saved(one):
    path = one.path / "empty.json"
    Reading().save(path)
    return path


def test_the_engine_is_told_which_modules_have_adapters(tmp_path):
    for name, modules in (("a", ["v_proj", "q_proj"]), ("b", ["down_proj", "q_proj"])):
        (tmp_path / name).mkdir()
        (tmp_path / name / "adapter_config.json").write_text(json.dumps({"target_modules": modules}))
    folders = [tmp_path / "a", tmp_path / "b"]
    assert shell.adapted_modules(folders) == ["down_proj", "q_proj", "v_proj"]
    with pytest.raises(TrainError, match="holds no adapter"):
        shell.adapted_modules([*folders, tmp_path / "c"])
