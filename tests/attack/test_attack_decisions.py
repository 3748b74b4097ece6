"""Nothing that is done to a signed decision, to what it binds or to whose word counts, passes: a
list of mutations."""

import base64
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands_here import gate
from governed import LATER, first, flip, rewrite, shard_of
from securesystemslib.dsse import Envelope

from audit.governance.keys import load_signer


def resigned(
    who: str, change: Callable[[dict[str, Any]], object]
) -> Callable[[Path, Path], object]:
    """Another payload, signed again: by a stranger, or by somebody who is trusted and lies."""

    def spoil(run: Path, keys: Path) -> None:
        stated = json.loads(base64.b64decode(json.loads(first(run).read_text())["payload"]))
        change(stated)
        text = json.dumps(stated, sort_keys=True, separators=(",", ":"))
        envelope = Envelope(text.encode(), "application/vnd.in-toto+json", {})
        envelope.sign(load_signer(keys / f"{who}.key"))
        first(run).write_text(json.dumps(envelope.to_dict(), sort_keys=True, indent=1) + "\n")

    return spoil


def outside(change: Callable[[dict[str, Any]], None]) -> Callable[[Path, Path], object]:
    return lambda run, keys: rewrite(first(run), change)


def linked(run: Path, keys: Path) -> None:
    first(run).rename(run / "elsewhere.json")
    first(run).symlink_to(run / "elsewhere.json")


def predicate(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda stated: stated["predicate"].update({name: value})


def other_subject(stated: dict[str, Any]) -> None:
    stated["subject"][0]["digest"]["sha256"] = "0" * 64


def renamed(run: Path, new: str) -> None:
    """Alice's public key under another name."""
    (run.parent / "trusted/alice.pub").replace(run.parent / "trusted" / new)


MUTATIONS: dict[str, Callable[[Path, Path], object]] = {
    "verdict: a space": lambda run, keys: (
        (run / "report/verdict.json").open("a").write(" ") and None
    ),
    "manifest: the status": lambda run, keys: rewrite(
        run / "manifest.json", lambda document: document.update(status="running")
    ),
    "suite: one appears": lambda run, keys: (run / "suite.json").write_text("{}") and None,
    "library: one appears": lambda run, keys: (run / "variants.arrow").write_bytes(b"x") and None,
    "shards: a bit of an answer": lambda run, keys: flip(shard_of(run)),
    "shards: one more": lambda run, keys: shutil.copy(shard_of(run), run / "shards/b.arrow"),
    "key: alice's under bob's name": lambda run, keys: renamed(run, "bob.pub"),
    "key: another one of hers": lambda run, keys: shutil.copy(
        keys / "mallory.pub", run.parent / "trusted/alice.pub"
    ),
    "key: taken out": lambda run, keys: (run.parent / "trusted/alice.pub").unlink(),
    "key: cut": lambda run, keys: (
        (run.parent / "trusted/alice.pub").write_text("-----BEGIN") and None
    ),
    "shards: one less": lambda run, keys: shard_of(run).unlink(),
    "decision: a space in the file": lambda run, keys: (
        first(run).write_text(" " + first(run).read_text()) and None
    ),
    "decision: no line at its end": lambda run, keys: (
        first(run).write_text(first(run).read_text()[:-1]) and None
    ),
    "decision: a field beside the signature": outside(
        lambda envelope: envelope.update({"note": "x"})
    ),
    "decision: another payload type": outside(
        lambda envelope: envelope.update({"payloadType": "text/plain"})
    ),
    "decision: no signature": outside(lambda envelope: envelope.update({"signatures": []})),
    "decision: the signature twice": outside(
        lambda e: e["signatures"].append(dict(e["signatures"][0]))
    ),
    "decision: another key's id": outside(lambda e: e["signatures"][0].update({"keyid": "0" * 64})),
    "decision: an empty signature": outside(lambda e: e["signatures"][0].update({"sig": ""})),
    "decision: empty": lambda run, keys: first(run).write_bytes(b"") and None,
    "decision: nested too deep": lambda run, keys: first(run).write_text("[" * 100_000) and None,
    "decision: renumbered": lambda run, keys: first(run).rename(run / "decisions/0002.dsse.json"),
    "decision: played again": lambda run, keys: shutil.copy(
        first(run), run / "decisions/0002.dsse.json"
    ),
    "decision: a link": linked,
    "decision: something beside it": lambda run, keys: (
        (run / "decisions/x").write_text("x") and None
    ),
    "signed by a stranger": resigned("mallory", lambda stated: None),
    "signed by another in alice's name": resigned("bob", lambda stated: None),
    "signed over another verdict": resigned("alice", other_subject),
    "signed over another model": resigned("alice", predicate("models", {"m": "zzz"})),
    "signed in the future": resigned("alice", predicate("decided", "2026-12-01T00:00:00+00:00")),
    "signed with an expiry before it": resigned(
        "alice", predicate("expires", "2026-01-01T00:00:00+00:00")
    ),
    "signed without an expiry": resigned("alice", predicate("expires", None)),
    "signed with a time that is none": resigned("alice", predicate("expires", "later")),
    "signed as the second": resigned("alice", predicate("sequence", 2)),
    "signed until 9999": resigned("alice", predicate("expires", "9999-12-31T23:59:59+00:00")),
    "signed in 1970": resigned("alice", predicate("decided", "1970-01-01T00:00:00+00:00")),
    "signed with a reason that is none": resigned("alice", predicate("reason", {"a": 1})),
    "signed over another run": resigned("alice", predicate("run", "f01")),
    "signed as something else": resigned("alice", predicate("decision", "pass")),
    "signed as another kind of statement": resigned(
        "alice", lambda stated: stated.update({"predicateType": "urn:x"})
    ),
    "decision: a folder in its place": lambda run, keys: (first(run).unlink(), first(run).mkdir()),
    "page: another one": lambda run, keys: (
        (run / "report/report.html").write_text("<h1>All is well</h1>") and None
    ),
    "key: a second name of hers": lambda run, keys: shutil.copy(
        keys / "alice.pub", run.parent / "trusted/dave.pub"
    ),
    "key: a name of other letters": lambda run, keys: renamed(run, "\u0430lice.pub"),
    "signed without subjects": resigned("alice", lambda stated: stated.pop("subject")),
    "signed without a predicate": resigned(
        "alice", lambda stated: stated.update({"predicate": None})
    ),
    "signed after another": resigned("alice", predicate("previous", "0" * 64)),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_no_mutation_passes(name: str, overridden: Path, keys: Path, tmp_path: Path) -> None:
    run, trusted = Path(shutil.copytree(overridden, tmp_path / "run")), tmp_path / "trusted"
    shutil.copytree(keys / "trusted", trusted)
    MUTATIONS[name](run, keys)
    assert gate([str(run), "--trust-report", "--keys", str(trusted)], LATER) == 1
