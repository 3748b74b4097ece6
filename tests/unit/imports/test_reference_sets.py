"""Reference sets: built of an import, held to a hash, chosen from before the tested model answers,
and taken home."""

import json
import runpy
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
from audit_here import undrawn
from commands_here import import_logs, references
from governed import Capsys, Patch

from audit.__main__ import main as audit
from audit.benchmarks.fresh import Origin, last_date
from audit.config.references import SetModel, choose, known_sets, load_set, reference_runs
from audit.core.errors import AuditError, ConfigError
from audit.engines.config import ModelConfig
from audit.memory.config import MemoryConfig
from audit.shards.manifest import Manifest

FAMILIES = ("ant", "bee", "cat", "dog")
MODELS = {
    f"{family}{k}": 0.30 + 0.05 * (4 * k + i) for k in range(3) for i, family in enumerate(FAMILIES)
}  # .30 to .85


DATES = ["--held-out-date", "2024-05", "--released", "2024-06"]


def table(path: Path, models: dict[str, float], seed: int, items: int = 200) -> Path:
    rng = np.random.default_rng(seed)
    rows = [
        f"{name},q{i},{int(rng.random() < share)}"
        for name, share in models.items()
        for i in range(items)
    ]
    path.write_text("\n".join(["model,item,correct", *rows]) + "\n")
    return path


def mine(folder: Path) -> list[str]:
    """A model that knows half of the exam: .5 + .5 * .5 = .75 right there, .5 on held-out items."""
    seen, new = (
        table(folder / "a.csv", {"mine": 0.75}, 3),
        table(folder / "b.csv", {"mine": 0.5}, 4),
    )
    return [
        str(seen),
        "--held-out",
        str(new),
        "--benchmark",
        "exam",
        "--judge",
        "mine",
        "-o",
        str(folder / "run"),
    ]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the set that `one_set` says, and the facts that it was built of. To be read
    only."""
    place = tmp_path_factory.mktemp("made")
    seen, new = table(place / "seen.csv", MODELS, 1), table(place / "new.csv", MODELS, 2)
    run, facts = str(place / "published"), place / "facts.csv"
    facts.write_text(
        "model,released,family\n" + "".join(f"{name},2024-01,{name[:3]}\n" for name in MODELS)
    )
    words = [
        "build",
        run,
        "--name",
        "exam_1",
        "--source",
        "made here",
        "--licence",
        "none",
        "--facts",
        str(facts),
    ]
    with pytest.MonkeyPatch.context() as patch, undrawn():
        patch.setenv("AUDIT_REFERENCES", str(place / "sets"))
        assert (
            import_logs([str(seen), "--held-out", str(new), "--benchmark", "exam", "-o", run]) == 0
        )
        assert references(words) == 0
        assert references(words) == 1  # sets never change
    return place


@pytest.fixture
def one_set(made: Path, tmp_path: Path, monkeypatch: Patch) -> str:
    """Twelve models of four families on `exam` and on 200 held-out items."""
    monkeypatch.setenv("AUDIT_REFERENCES", str(tmp_path / "sets"))
    shutil.copytree(made / "sets", tmp_path / "sets")
    shutil.copy(made / "facts.csv", tmp_path)
    return "exam_1"


def test_a_set_knows_its_models_and_is_held_to_its_answers(one_set: str) -> None:
    loaded = load_set(one_set)
    assert known_sets() == [one_set] and loaded.benchmark == "exam" and len(loaded.version) == 16
    by_name = {model.name: model for model in loaded.models}
    assert (
        by_name["dog2"].answers == 200
        and by_name["dog2"].family == "dog"
        and by_name["dog2"].released == "2024-01"
    )
    assert all(
        abs(model.accuracy - MODELS[model.name]) < 0.12 for model in loaded.models
    )  # 3.4 standard errors of .035
    shard = next((loaded.path / "shards").iterdir())
    shard.write_bytes(shard.read_bytes()[:-1] + b"x")
    with pytest.raises(AuditError, match=r"was changed"):
        load_set(one_set)


def test_a_set_whose_version_is_another_is_refused(one_set: str) -> None:
    about = load_set(one_set).path / "set.json"
    about.write_text(json.dumps({**json.loads(about.read_text()), "version": "0" * 16}))
    with pytest.raises(AuditError, match=r"version 0{16}"):
        load_set(one_set)


def test_the_choice_leaves_out_the_family_and_spans_the_set(one_set: str) -> None:
    models = load_set(one_set).models
    chosen = choose(models, ["CAT"], 4)
    assert (
        not any(name.startswith("cat") for name in chosen)
        and len({name[:3] for name in chosen}) == 3
    )
    ordered = sorted(
        (model for model in models if model.family != "cat"),
        key=lambda model: (model.accuracy, model.name),
    )
    assert chosen[0] == ordered[0].name and chosen[-1] == ordered[-1].name
    assert choose(models, ["cat"], 4) == chosen  # the same whoever asks, whenever
    with pytest.raises(ConfigError, match="3 or more"):
        choose(models, ["ant", "bee", "cat", "dog"])


def test_a_model_of_unknown_family_stays_and_a_set_without_any_is_refused() -> None:
    models = [SetModel(str(k), k / 10, 9, 0) for k in range(10)]
    assert choose([*models, SetModel("half", 0.0, 8, 0)], (), 4) == (
        "0",
        "3",
        "6",
        "9",
    )  # it lacks an item of nine
    with pytest.raises(ConfigError, match="--facts"):
        choose(models, ["ant"], 4)
    assert "0" in choose([*models, SetModel("a", 0.5, 9, 0, family="ant")], ["ant"], 4)


def test_a_convicted_model_becomes_no_reference(one_set: str, tmp_path: Path) -> None:
    models = {**MODELS, "taught": 0.95}
    seen, new = (
        table(tmp_path / "s.csv", models, 5),
        table(tmp_path / "n.csv", {**MODELS, "taught": 0.5}, 6),
    )
    words = [
        str(seen),
        "--held-out",
        str(new),
        "--benchmark",
        "exam",
        "--judge",
        "taught",
        "-o",
        str(tmp_path / "bad"),
    ]
    assert import_logs([*words, *DATES]) == 0
    words = [
        "build",
        str(tmp_path / "bad"),
        "--name",
        "exam_2",
        "--source",
        "made here",
        "--licence",
        "none",
    ]
    assert references(words) == 1 and known_sets() == [one_set]


def test_a_set_by_other_names_and_one_without_held_out_items(
    one_set: str, tmp_path: Path, capsys: Capsys
) -> None:
    """The set calls its held-out items `held_out`; one table holds both of this model's. Then a set
    without any."""
    mine(tmp_path)
    tables = ((tmp_path / "a.csv", "old"), (tmp_path / "b.csv", "fresh"))
    rows = [f"{row},{name}" for path, name in tables for row in path.read_text().split()[1:]]
    both = tmp_path / "both.csv"
    both.write_text("\n".join(["model,item,correct,benchmark", *rows]) + "\n")
    words = [
        str(both),
        "--benchmark",
        "old",
        "--held-out",
        "fresh",
        "--judge",
        "mine",
        "--family",
        "bee",
        *DATES,
    ]
    words.append("--references")
    assert import_logs([*words, f"set:{one_set}", "-o", str(tmp_path / "run")]) == 0
    (cell,) = json.loads((tmp_path / "run/report/verdict.json").read_text())["cells"]
    assert cell["verdict"] == "gap_to_fresh_items"
    run = str(tmp_path / "all seen")
    capsys.readouterr()
    assert (
        import_logs([str(table(tmp_path / "c.csv", MODELS, 1)), "--benchmark", "exam", "-o", run])
        == 0
    )
    assert f"references build '{run}'" in (then := capsys.readouterr().out) and "--facts" in then
    assert (
        references(["build", run, "--name", "bare", "--source", "made here", "--licence", "none"])
        == 0
    )
    bare = capsys.readouterr().out  # of no model is the family known: every use is refused
    assert "--facts" in bare and "set:bare" not in bare
    build = [
        "build",
        run,
        "--name",
        "half",
        "--source",
        "made here",
        "--licence",
        "none",
        "--facts",
    ]
    assert references([*build, "mmlu_pro"]) == 1  # shipped, and of other models
    assert references([*build, "nowhere.csv"]) == 1
    assert references([*build, str(tmp_path / "facts.csv")]) == 0
    capsys.readouterr()
    assert import_logs([*words, "set:half", "-o", str(tmp_path / "other")]) == 1
    assert "0 of 200" in capsys.readouterr().err


def test_an_import_takes_references_from_a_set(
    one_set: str, tmp_path: Path, capsys: Capsys
) -> None:
    words = [*mine(tmp_path), *DATES, "--references", f"set:{one_set}"]
    assert import_logs(words) == 1  # of which family is it?
    assert import_logs([*words, "--family", "bee"]) == 0
    manifest = Manifest.load(tmp_path / "run")
    others = [name for name in manifest.models if name != "mine"]
    assert others == sorted(choose(load_set(one_set).models, ["bee"])) and len(others) == 8
    assert manifest.config["read_by"]["references"] == list(
        choose(load_set(one_set).models, ["bee"])
    )
    (cell,) = json.loads((tmp_path / "run/report/verdict.json").read_text())["cells"]
    without = cell["without_memory"]["estimate"]["without"]
    assert cell["verdict"] == "gap_to_fresh_items" and without["low"] < 0.5 < without["high"] < 0.75
    assert any(log["sha256"] == load_set(one_set).version for log in manifest.config["logs"])
    origins = manifest.analysis["origins"]
    assert origins["mine"] == {"released": "2024-06", "family": "bee"}
    assert all(origins[name] == {"released": "2024-01", "family": name[:3]} for name in others)


@pytest.mark.parametrize("released", ["2023-11", "mine=2023-11"])
def test_a_set_without_a_model_old_enough_is_refused_by_the_judged_models_date(
    one_set: str, tmp_path: Path, capsys: Capsys, released: str
) -> None:
    words = [
        *mine(tmp_path),
        "--references",
        f"set:{one_set}",
        "--family",
        "bee",
        "--held-out-date",
        "2023-12",
    ]
    assert import_logs([*words, "--released", released]) == 1
    assert " 0 models" in capsys.readouterr().err


def test_a_choice_keeps_to_models_as_old_as_the_held_out_items_need() -> None:
    """Items newer than the tested model are to be new to its references too."""
    models = [
        SetModel(f"m{k}", k / 9, 9, 0, f"2024-0{k}" if k else None, f"f{k}") for k in range(8)
    ]
    assert choose(models, ["mine"], before="2024-05") == ("m1", "m2", "m3", "m4")
    with pytest.raises(ConfigError, match="2 models"):
        choose(models, ["mine"], before="2024-03")
    assert last_date("2024-05", [Origin("2024-04"), Origin("2024-06")]) == "2024-05"
    assert last_date("2024-03..2024-05", [Origin("2024-04")]) == "2024-03"
    for date, released in ((None, "2024-04"), ("2024-05", None), ("2024-05", "2024-05")):
        assert last_date(date, [Origin(released)]) is None


def test_an_audit_takes_references_from_a_set(one_set: str) -> None:
    def run(family: str | None) -> list[str]:
        model = ModelConfig(name="mine", engine="scripted", family=family)
        config = MemoryConfig(model={"mine": model}, references=[f"set:{one_set}"])
        (reference_run,) = reference_runs(config)
        assert {reference_run.origins[name] for name in reference_run.models} == {
            Origin("2024-01", name[:3]) for name in reference_run.models
        }
        return list(reference_run.models)

    assert run("dog") == list(choose(load_set(one_set).models, ["dog"]))
    with pytest.raises(ConfigError, match=r"model\.mine\.family="):
        run(None)


@pytest.mark.long
def test_the_five_commands_of_the_docs(tmp_path: Path, monkeypatch: Patch) -> None:
    """The page's script and commands, on made answers. One item of 201 was answered right in 3 of
    10 trials: .3."""
    folder = Path(__file__).parents[3] / "docs/do"
    text = (folder / "import_logs.md").read_text()
    section = text.split("## Five commands", 1)[1].split("\n## ", 1)[0].replace("\\\n", " ")
    commands = [
        shlex.split(line)[1:] for line in section.splitlines() if line.startswith("    audit ")
    ]
    monkeypatch.setenv("AUDIT_REFERENCES", str(tmp_path / "sets"))
    monkeypatch.chdir(tmp_path)
    rng, september = np.random.default_rng(3), 1693526400000
    rows = [("seen200", september - 1, name, 30.0) for name in MODELS]
    for when, date, share in (("seen", september - 1, 0.75), ("new", september, 0.5)):
        for name, accuracy in {"DSCoder-33b-Ins": share, **MODELS}.items():
            rows += [
                (f"{when}{k}", date, name, 100.0 * (rng.random() < accuracy)) for k in range(200)
            ]
    performances = [
        {"question_id": q, "date": d, "model": m, "pass@1": p, "platform": "leetcode"}
        for q, d, m, p in rows
    ]
    ended = [
        {"model_repr": name, "release_date": september - 10**9} for name in {m for *_, m, _ in rows}
    ]
    published = {"performances": performances, "models": ended}
    Path("performances_generation.json").write_text(json.dumps(published))
    runpy.run_path(str(folder / "livecodebench_tables.py"), run_name="__main__")
    assert [
        audit([*words, *["--no-browser"] * (words[0] == "open")]) or 0 for words in commands
    ] == [0, 0, 0, 3, 0]
    (ant,) = (model for model in load_set("leetcode_2024").models if model.name == "ant0")
    right = sum(p / 100 for q, d, m, p in rows if m == "ant0" and d < september)
    assert (ant.answers, ant.unparsed, ant.family) == (
        201,
        0,
        "ant",
    ) and ant.accuracy == pytest.approx(right / 201)
    (cell,) = json.loads((tmp_path / "outputs/mine/report/verdict.json").read_text())["cells"]
    assert (
        cell["verdict"] == "gap_to_fresh_items"
        and cell["without_memory"]["estimate"]["without"]["high"] < 0.75
    )
    assert (tmp_path / "outputs/index.html").is_file()
