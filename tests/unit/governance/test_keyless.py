"""Decisions and packs signed through sigstore: as good as a key's, and never made or believed
without its services."""

import copy
import json
import os
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from commands_here import evidence, gate
from governed import NOW, Capsys, Patch, decided
from sigstore_services import ISSUER, serving, token

from audit.core.errors import ConfigError, SignatureError
from audit.governance.keyless import TRUST_VARIABLE, load_identity
from audit.governance.keys import load_signer, load_trusted, seal, statement, unseal

NEEDS = "sigstore is not installed (pip install 'benchmark-audit[sigstore]'): signatures through it are not tested"


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The trust configuration of sigstore's services on this machine."""
    pytest.importorskip("sigstore", reason=NEEDS)
    path = tmp_path_factory.mktemp("sigstore") / "trust.json"
    with serving() as (made, url):
        path.write_text(json.dumps(made.trust(url)))
        yield path


@pytest.fixture
def as_who(services: Path, monkeypatch: Patch) -> Callable[[str], None]:
    """From here on the CI job is this person's."""
    for name in ("GITHUB_ACTIONS", "CIRCLECI", "BUILDKITE", "GITLAB_CI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(TRUST_VARIABLE, str(services))

    def become(email: str) -> None:
        monkeypatch.setenv("GITLAB_CI", "true")
        monkeypatch.setenv("SIGSTORE_ID_TOKEN", token(email))

    return become


@pytest.fixture
def trusted(tmp_path: Path) -> Path:
    """Two identities of sigstore."""
    folder = tmp_path / "trusted"
    folder.mkdir()
    for name in ("dora", "emil"):
        identity = {"identity": f"{name}@example.org", "issuer": ISSUER}
        (folder / f"{name}.sigstore.json").write_text(json.dumps(identity))
    return folder


def override(run_dir: Path, trusted: Path, name: str) -> int:
    return decided(
        run_dir,
        trusted,
        name,
        "--key",
        str(trusted / f"{name}.sigstore.json"),
        "--keys",
        str(trusted),
    )


def test_the_gate_honours_a_decision_through_sigstore_like_a_key(
    run_dir: Path, trusted: Path, keys: Path, as_who: Callable[[str], None], capsys: Capsys
) -> None:
    words = [str(run_dir), "--keys", str(trusted), "--approvals", "2"]
    as_who("dora@example.org")
    assert override(run_dir, trusted, "dora") == 0, capsys.readouterr().err
    assert gate(words, NOW) == 5  # one of two
    assert override(run_dir, trusted, "emil") == 1  # dora's session does not sign for emil
    assert len([*(run_dir / "decisions").iterdir()]) == 1
    (trusted / "alice.pub").write_bytes((keys / "alice.pub").read_bytes())
    assert (
        decided(run_dir, keys, "alice", "--keys", str(trusted)) == 0
    )  # keys and identities in one chain
    assert gate(words, NOW) == 0 and "dora" in capsys.readouterr().out
    assert gate(words, datetime(2027, 1, 2, tzinfo=UTC)) == 5  # it expires like any
    (trusted / "dora.sigstore.json").write_text(
        json.dumps({"identity": "dora@example.org", "issuer": "https://x"})
    )
    assert gate(words, NOW) == 1 and "0001.dsse.json" in capsys.readouterr().err


def test_a_pack_is_vouched_for_by_an_identity(
    built: Path, trusted: Path, as_who: Callable[[str], None], tmp_path: Path, capsys: Capsys
) -> None:
    as_who("emil@example.org")
    pack = str(tmp_path / "pack.zip")
    assert evidence([str(built), "-o", pack, "--key", str(trusted / "emil.sigstore.json")]) == 0
    assert evidence(["verify", pack, "--keys", str(trusted)]) == 0
    assert "emil" in capsys.readouterr().out


def leaves(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict | list):
        for key, member in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(member, (*at, key))
    else:
        yield at


def test_whatever_is_changed_in_a_signature_is_found(
    trusted: Path, as_who: Callable[[str], None]
) -> None:
    as_who("dora@example.org")
    stated = statement("urn:x", {"a": "0" * 64}, {"b": 1})
    data = seal(stated, load_signer(trusted / "dora.sigstore.json"))
    known = load_trusted(trusted)
    assert unseal(data, known, "urn:x", "it") == (stated, "dora")
    whole = json.loads(data)
    places = list(leaves(whole))
    assert len(places) > 15
    for place in places:
        other = copy.deepcopy(whole)
        inside = other
        for key in place[:-1]:
            inside = inside[key]
        old = inside[place[-1]]
        inside[place[-1]] = (
            f"{old[:-6]}{'B' if old[-6] == 'A' else 'A'}{old[-5:]}" if len(str(old)) > 6 else "7"
        )
        with pytest.raises(SignatureError):
            unseal(
                (json.dumps(other, sort_keys=True, indent=1) + "\n").encode(), known, "urn:x", "it"
            )
    whole["signatures"][0]["bundle"]["more"] = 1
    with pytest.raises(SignatureError):
        unseal((json.dumps(whole, sort_keys=True, indent=1) + "\n").encode(), known, "urn:x", "it")


def test_no_services_no_identity_or_no_library_is_an_error_and_never_an_unsigned_decision(
    run_dir: Path,
    trusted: Path,
    services: Path,
    as_who: Callable[[str], None],
    tmp_path: Path,
    monkeypatch: Patch,
    capsys: Capsys,
) -> None:
    monkeypatch.setattr(sys, "stdin", open(os.devnull))  # noqa: SIM115 - nobody to ask
    assert override(run_dir, trusted, "dora") == 1 and "terminal" in capsys.readouterr().err
    as_who("dora@example.org")
    url = json.loads(services.read_text())["signingConfig"]["caUrls"][0]["url"]
    down = tmp_path / "down.json"
    down.write_text(services.read_text().replace(url, "http://127.0.0.1:1"))
    monkeypatch.setenv(TRUST_VARIABLE, str(down))
    assert override(run_dir, trusted, "dora") == 1 and "port=1" in capsys.readouterr().err
    assert not (run_dir / "decisions").exists()
    monkeypatch.setenv(TRUST_VARIABLE, str(services))
    assert override(run_dir, trusted, "dora") == 0
    monkeypatch.setenv(TRUST_VARIABLE, str(tmp_path / "nowhere.json"))
    assert (
        gate([str(run_dir), "--keys", str(trusted)], NOW) == 1
    )  # nobody can tell: it does not pass
    assert "nowhere.json" in capsys.readouterr().err


def test_without_the_library_nothing_is_signed_or_believed(
    run_dir: Path, trusted: Path, monkeypatch: Patch, capsys: Capsys
) -> None:
    monkeypatch.setitem(sys.modules, "sigstore", None)
    assert override(run_dir, trusted, "dora") == 1
    assert (
        "benchmark-audit[sigstore]" in capsys.readouterr().err
        and not (run_dir / "decisions").exists()
    )


@pytest.mark.parametrize(
    "text", ['{"identity": "a@b.c"}', '{"identity": "a@b.c", "issuer": ""}', "[]", "x"]
)
def test_an_identity_needs_its_issuer(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.sigstore.json").write_text(text)
    with pytest.raises(ConfigError, match="names no sigstore identity"):
        load_identity(tmp_path / "a.sigstore.json")


def test_the_public_instance_signs_and_verifies(tmp_path: Path, monkeypatch: Patch) -> None:
    """For real, in a CI job that has an identity: AUDIT_TEST_SIGSTORE='{"identity": ..., "issuer":
    ...}' names it."""
    pytest.importorskip("sigstore", reason=NEEDS)
    identity = os.environ.get("AUDIT_TEST_SIGSTORE")
    if not identity:
        pytest.skip(
            "AUDIT_TEST_SIGSTORE names no identity: nothing is signed with the public sigstore"
        )
    monkeypatch.delenv(TRUST_VARIABLE, raising=False)
    path = tmp_path / "me.sigstore.json"
    path.write_text(identity)
    stated = statement("urn:x", {"a": "0" * 64}, {})
    assert unseal(seal(stated, load_signer(path)), load_trusted(tmp_path), "urn:x", "it") == (
        stated,
        "me",
    )
