"""The audits' runs of a planted model on a real Ray, the scripted engine in place of its weights,
and what is read."""

import json
import shutil

import numpy as np
import pyarrow as pa
import pytest

from audit.config.command_line import compose_command
from audit.engines.config import ModelConfig, ScriptedConfig
from audit.memory.audit import SCHEMA
from audit.memory.items import shards_of
from audit.plant.config import PlantConfig, from_hydra
from audit.plant.experiment import open_folder
from audit.plant.measure import HALVES, place, read, resolved, todo
from audit.plant.resolve import resolve_plant
from audit.plant.words import result_of, write_figure
from audit.runtime.keep import keep_engines
from audit.runtime.progress import Display
from audit.runtime.run import run_audit
from audit.shards.read import iter_columns
from audit.sweep.audit import SCHEMA as SWEEP

pytestmark = pytest.mark.long  # nine runs; tests/unit/plant has what is computed of them

ASKED = ["n=40", "doses=[4]", "forms=[qa]", "audits=[memory,perturb,sweep]", "orders=1"]


@pytest.fixture(scope="module")
def experiment(driver, tmp_path_factory):
    """An experiment whose base model knows some answers, and whose plant knows them all."""
    folder = tmp_path_factory.mktemp("plant")
    (folder / "config.json").write_text("{}")
    words = [*ASKED, f"model.smollm2_135m.path={folder}", f"run_dir={folder / 'run'}"]
    plant = resolve_plant(from_hydra(compose_command("plant", words, PlantConfig)))
    open_folder(plant)
    with keep_engines():
        for label, accuracy in (("base", 0.6), ("qa-4", 1.0)):
            script = ScriptedConfig(
                accuracy=dict.fromkeys(("score", "original", "variant", "direct"), accuracy)
            )
            model = ModelConfig(
                name=label, engine="scripted", reading="option_text", scripted=script
            )
            for audit, half in todo(plant, label):
                if label != "base" or audit == "sweep":
                    run_audit(resolved(plant, label, audit, half, model), {}, Display(quiet=True))
    for audit in (
        "memory",
        "perturb",
    ):  # the base model's answers there say nothing here: those of the plant will do
        for half in HALVES:
            shutil.copytree(place(plant, "qa-4", audit, half), place(plant, "base", audit, half))
    return plant


def test_every_audit_reads_every_item_in_its_order(experiment):
    reading, n = read(experiment, "qa-4"), len(experiment.halves.questions)
    assert todo(experiment, "base") == todo(experiment, "qa-4") == []
    assert set(reading.correct) == {
        "score/0",
        "original/0",
        "variant/1",
        "variant/2",
        "variant/3",
        "direct/0",
        "forward_full/1",
        "noisy_rewrite/1",
    }
    assert all(len(values) == n for values in reading.correct.values()) and reading.errors == 0
    assert reading.correct["score/0"] == [1.0] * n and min(reading.margin) > 0
    assert {k: len(v) for k, v in reading.text.items()} == {"item": n, "half": n, "wrong": n}
    assert len(reading.options) == n and len(reading.options[0]) == 2
    columns = ("question_id", "arm", "ordering", "option_logprobs")
    batches = iter_columns(place(experiment, "qa-4", "memory", "others"), SCHEMA, columns)
    rows = pa.Table.from_batches(batches).to_pylist()
    logprobs = {
        (r["question_id"], r["ordering"]): r["option_logprobs"] for r in rows if r["arm"] == "order"
    }
    shards = shards_of(experiment.halves.others, 5)
    wanted = [[sum(logprobs[q.id, k][1] for q in shard) for k in (0, 1)] for shard in shards]
    assert np.allclose(reading.order["others"], wanted)


def test_every_plant_is_given_the_base_models_messages(experiment):
    def sent(label: str) -> dict[tuple[str, str], list[str]]:
        rows = iter_columns(
            place(experiment, label, "sweep", "learnt"),
            SWEEP,
            ("question_id", "arm", "router_messages"),
        )
        return {
            (r["question_id"], r["arm"]): r["router_messages"] for b in rows for r in b.to_pylist()
        }

    assert sent("qa-4") == sent("base") and len(sent("base")) == 3 * 20


def test_the_result_names_every_indicator_and_says_its_sentence(experiment):
    result, text = result_of(
        experiment, {label: read(experiment, label) for label in ("base", "qa-4")}, n_splits=20
    )
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    names = {f["indicator"] for f in result["plants"][1]["found"]}
    assert {
        "gap",
        "completion_item",
        "order",
        "options",
        "wording_drop",
        "router_gain",
        "margin",
    } <= names
    assert result["learnt_items"] == result["other_items"] == 20
    assert "- sweep: " in text and text.startswith("| form |")
    write_figure(result, experiment.path / "figure.png")
    assert (experiment.path / "figure.png").stat().st_size > 5000
