"""The gate on a run that somebody edited: what would let it pass is refused, and what says nothing
changes nothing."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from commands_here import evidence, gate, registry
from governed import Capsys, build_without_figures, flip, make_run, rewrite, shard_of

from audit.shards.files import file_sha256

Edit = Callable[[Path], object]
PASS = "no_excess_detected"


def verdict(change: Callable[[dict[str, Any]], object]) -> Edit:
    return lambda run: rewrite(run / "report" / "verdict.json", change)


def cell(**new: Any) -> Edit:
    return verdict(lambda plain: plain["cells"][0].update(new))


def manifest(change: Callable[[dict[str, Any]], object]) -> Edit:
    return lambda run: rewrite(run / "manifest.json", change)


def text(name: str, data: str | bytes) -> Edit:
    return lambda run: (run / name).write_bytes(data if isinstance(data, bytes) else data.encode())


def flipped_and_listed(run: Path) -> None:
    """A bit of an answer, and the manifest's hash made to fit: the sums inside of the shard are
    left."""
    flip(shard_of(run))
    manifest(lambda plain: plain["shards"][0].update(sha256=file_sha256(shard_of(run))))(run)


def panel_of_another(run: Path) -> None:
    """The run says that it is a panel of another one, and has that one's verdict: the gate judged
    the other."""
    made = make_run(run.parent / "made", "m", 11)
    build_without_figures(made)
    shutil.copy(made / "report/verdict.json", run / "report/verdict.json")
    (run / "panel.json").write_text('{"runs": ["../made"]}')


def doubled_key(run: Path) -> None:
    path = run / "report" / "verdict.json"
    once = '"verdict": "underpowered"'
    path.write_text(path.read_text().replace(once, f'{once}, "verdict": "{PASS}"', 1))


def other_shard(run: Path) -> None:
    """An answer sheet of the same model with other answers in the place of the first, as the
    manifest lists it."""
    made = make_run(run.parent / "made", "m", 11)
    shutil.copy(shard_of(made), shard_of(run))


# What was done to a run that the gate answers with 4: it refuses all but those of JUDGED.
EDITS: dict[str, Edit] = {
    "nothing": lambda run: None,
    "verdict: one word": cell(verdict=PASS),
    "verdict: a list": cell(verdict=[PASS]),
    "verdict: the key twice": doubled_key,
    "verdict: a gate that failed passed": verdict(
        lambda p: [g.update(status="pass") for g in p["cells"][0]["gates"]]
    ),
    "verdict: another model": cell(model="k"),
    "verdict: another benchmark": cell(benchmark="other"),
    "verdict: no cells": verdict(lambda p: p.update(cells=[])),
    "verdict: a second cell that passes": verdict(
        lambda p: p["cells"].append(p["cells"][0] | {"verdict": PASS, "model": "z"})
    ),
    "verdict: no rows": verdict(lambda p: p.update(rows=[])),
    "verdict: no runs": verdict(lambda p: p.update(runs=[])),
    "verdict: of a suite": verdict(
        lambda p: p.update(suite={"gate": "source", "source": [], "sentences": []})
    ),
    "verdict: runs of other counts": verdict(lambda p: p["runs"][0].update(models={})),
    "verdict: of an audit that there is not": verdict(lambda p: p.update(audit="nothing")),
    "verdict: of another audit": verdict(lambda p: p.update(audit="perturb")),
    "verdict: null": text("report/verdict.json", "null"),
    "verdict: as deep as a well": text("report/verdict.json", "[" * 100_000),
    "verdict: not a number": cell(n_questions=float("nan")),
    "verdict: no text": text("report/verdict.json", b"\xff\xfe{}"),
    "verdict: empty": text("report/verdict.json", ""),
    "verdict: gone": lambda run: (run / "report/verdict.json").unlink(),
    "verdict: another headline": cell(
        headline="Spotless!", reasons=[], what_to_do=[]
    ),  # computed anew
    "manifest: running": manifest(lambda p: p.update(status="running")),
    "manifest: a model that was never run": manifest(lambda p: p["models"].update(ghost={})),
    "manifest: more questions": manifest(lambda p: p["benchmark"]["synthetic"].update(n=24)),
    "manifest: fewer questions": manifest(lambda p: p["benchmark"]["synthetic"].update(n=6)),
    "manifest: another setting": manifest(
        lambda p: p["settings"].append({"arm": "direct", "level": 0, "replicate": 0})
    ),
    "manifest: a shard more": manifest(
        lambda p: p["shards"].append(dict(p["shards"][0], file="b.arrow"))
    ),
    "manifest: no shards": manifest(lambda p: p.update(shards=[])),
    "manifest: of another audit": manifest(lambda p: p.update(audit="memory")),
    "manifest: a number for a model": manifest(lambda p: p["models"].update(m=3)),
    "manifest: a number for a time": manifest(lambda p: p.update(started=3)),
    "manifest: a list for a benchmark": manifest(lambda p: p["benchmark"].update(synthetic=[])),
    "manifest: no hashes of prompts": manifest(lambda p: p.update(prompt_hashes=None)),
    "manifest: not JSON": text("manifest.json", "{"),
    "manifest: a list": text("manifest.json", "[]"),
    "manifest: as deep as a well": text("manifest.json", "[" * 100_000),
    "manifest: gone": lambda run: (run / "manifest.json").unlink(),
    "shards: a bit": lambda run: flip(shard_of(run)),
    "shards: a bit, and its hash": flipped_and_listed,
    "shards: other answers of the same size": other_shard,
    "shards: one twice": lambda run: shutil.copy(shard_of(run), run / "shards/b.arrow"),
    "shards: an empty file": text("shards/b.arrow", ""),
    "shards: a file of something else": text("shards/notes.txt", "x"),
    "shards: none": lambda run: shard_of(run).unlink(),
    "all but the verdict gone, which passes": lambda run: (
        cell(verdict=PASS)(run),
        shutil.rmtree(run / "shards"),
        (run / "manifest.json").unlink(),
    ),
    "a panel of nothing": text("panel.json", '{"runs": []}'),
    "a panel of itself": text("panel.json", '{"runs": ["."]}'),  # it is judged all the same
    "a panel of another run, with its verdict": panel_of_another,
    "a panel of nowhere": text("panel.json", '{"runs": ["/nowhere"]}'),
    "a panel as deep as a well": text("panel.json", "[" * 100_000),
    "a decision of nobody": lambda run: (
        (run / "decisions").mkdir(),
        text("decisions/0001.dsse.json", "{}")(run),
    ),
}
JUDGED = {"nothing", "verdict: another headline", "a panel of itself"}
# What --trust-report believes: the verdict's own words, and a shard whose hash was made to fit.
BELIEVED = JUDGED | {
    "verdict: one word",
    "verdict: the key twice",
    "verdict: a gate that failed passed",
    "verdict: another model",
    "verdict: another benchmark",
    "verdict: a second cell that passes",
    "shards: a bit, and its hash",
    "all but the verdict gone, which passes",
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_run_does_not_pass(name: str, run_dir: Path, keys: Path, capsys: Capsys) -> None:
    EDITS[name](run_dir)
    arguments = [str(run_dir), "--keys", str(keys / "trusted")]
    assert gate(arguments) == (5 if name in JUDGED else 1)
    assert "Spotless!" not in capsys.readouterr().out
    assert (gate([*arguments, "--trust-report"]) != 1) == (name in BELIEVED)


# What a field of a manifest may become, and what a full manifest has.
OTHERS = (None, [], {}, -1, 1e308, "x", True, ["x"], {"x": 1}, "\ud800", 10**30)
FULL = {
    "stop": {"asked": {"m": {"synthetic": 12}}},
    "cost": {"m": {"direct": {"worker": {"calls": 1}}}},
    "timings": {"m/1": {"load_s": 1.0}},
    "models_failed": {"k": "it broke"},
    "models_stopped": {"k": {"code": "canary"}},
    "backends": {"m": {"e fp": 1}},
    "sampled_ids": {"synthetic": ["q"]},
    "precision": {"m": "float32"},
    "run_by": ["bob"],
}


def paths(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every field of a document, and of each list the first entry."""
    if at:
        yield at
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from paths(inner, (*at, key))
    elif isinstance(value, list) and value:
        yield from paths(value[0], (*at, 0))


def with_field(document: Any, at: tuple[Any, ...], value: Any) -> Any:
    copy = json.loads(json.dumps(document))
    holder = copy
    for key in at[:-1]:
        holder = holder[key]
    holder[at[-1]] = value
    return copy


def test_no_field_of_a_manifest_is_more_than_a_sentence(run_dir: Path, tmp_path: Path) -> None:
    """Each field in turn becomes a value of another kind: the gate, a pack and the registry end in
    a code and not in a traceback."""
    plain = json.loads((run_dir / "manifest.json").read_text()) | FULL
    for number, at in enumerate(paths(plain)):
        for value in OTHERS[number % 7 :: 7]:
            (run_dir / "manifest.json").write_text(json.dumps(with_field(plain, at, value)))
            place = tmp_path / "registry.db"
            place.unlink(missing_ok=True)
            assert gate([str(run_dir), "--trust-report"]) in (1, 5), (at, value)
            if number % 2:
                pack = ["-o", str(tmp_path / "pack.zip"), "--unsigned"]
                assert evidence([str(run_dir), *pack]) in (0, 1)
            else:
                assert registry(["add", str(run_dir), "--registry", str(place)]) in (0, 1)


@pytest.mark.parametrize("form", ["text", "json", "junit", "github", "markdown"])
def test_a_pass_by_thresholds_of_its_own_says_so(form: str, run_dir: Path, capsys: Capsys) -> None:
    """A smallest effect that matters of 99 points lets anything pass."""
    gate([str(run_dir), "--trust-report", "--format", form])
    assert "effect_of_interest" not in capsys.readouterr().out
    verdict(lambda plain: plain["thresholds"].update(effect_of_interest=0.99))(run_dir)
    gate([str(run_dir), "--trust-report", "--format", form])
    out = capsys.readouterr().out.replace("&#95;", "_")
    assert "effect_of_interest 0.99 (0.05)" in out
