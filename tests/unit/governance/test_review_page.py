"""The reviewers' page under hostile requests: who is let in, what is decided, and what a text on it
can do."""

import re
import shutil
import socket
from pathlib import Path

import pytest
from commands_here import gate, review
from governed import NOW, TOKEN, Capsys, Patch, reviewing, rewrite
from starlette.testclient import TestClient

from audit.core.errors import ConfigError
from audit.governance.serve import Reviewing, create_app
from audit.shards.panel import write_panel

AT = "127.0.0.1:8790"
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'>\x1b[2J\u202e"


def client(folder: Path, keys: Path, *, logged_in: bool = True) -> TestClient:
    browser = TestClient(
        create_app(reviewing(folder, keys, AT)), base_url=f"http://{AT}", follow_redirects=False
    )
    if logged_in:
        assert browser.get(f"/login?token={TOKEN}").status_code == 303
    return browser


@pytest.fixture
def page(run_dir: Path, keys: Path) -> TestClient:
    return client(run_dir.parent, keys)


@pytest.fixture
def address(page: TestClient) -> str:
    """Of the one run of the queue."""
    (link,) = set(re.findall(r'href="(/home/run/[0-9a-f]{20})"', page.get("/home/").text))
    return link


def form(page: TestClient, address: str, **changes: str) -> dict[str, str]:
    text = page.get(address).text
    hidden = dict(re.findall(r'name="(csrf|seen)" value="([^"]*)"', text))
    return {**hidden, "kind": "override", "reason": "needed", "expires": "2026-12-31", **changes}


def post(page: TestClient, address: str, data: dict[str, str], **headers: str) -> int:
    return page.post(address, data=data, headers={"origin": f"http://{AT}", **headers}).status_code


def test_a_run_is_looked_at_and_decided(
    page: TestClient, address: str, run_dir: Path, keys: Path, capsys: Capsys
) -> None:
    assert "no decision" in page.get("/home/").text
    shown = page.get(address).text
    assert "You sign as <strong>alice</strong>" in shown and "UNDERPOWERED" in shown
    assert (keys / "alice.key").read_text().splitlines()[1] not in shown
    assert (
        'value="approve"' not in shown and 'value="override"' in shown
    )  # an approval would have no effect
    assert post(page, address, form(page, address)) == 303
    assert gate([str(run_dir), "--keys", str(keys / "trusted")], NOW) == 0
    assert "alice" in capsys.readouterr().out and "alice" in page.get(address).text
    assert (
        post(page, address, form(page, address, kind="reject", expires="2026-12-31")) == 303
    )  # it does not expire
    assert gate([str(run_dir), "--keys", str(keys / "trusted")], NOW) == 3


def test_the_session_is_for_no_script_and_no_other_site(run_dir: Path, keys: Path) -> None:
    answer = client(run_dir.parent, keys, logged_in=False).get(f"/login?token={TOKEN}")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie and TOKEN not in cookie
    assert (
        "path=/home" in cookie
    )  # other servers of 127.0.0.1 are asked for no such path, so they are not sent it


def test_every_start_has_an_address_of_its_own() -> None:
    made = Reviewing.__dataclass_fields__["home"].default_factory
    homes = {made() for _ in range(3)}
    assert len(homes) == 3 and all(len(home) == 32 for home in homes)


def test_what_changed_since_it_was_looked_at_is_not_decided(
    page: TestClient, address: str, run_dir: Path
) -> None:
    seen = form(page, address)
    path = run_dir / "report" / "verdict.json"
    path.write_text(path.read_text() + " ")
    assert post(page, address, seen) == 409 and not (run_dir / "decisions").exists()
    path.unlink()
    assert post(page, address, seen) == 409
    assert 'name="csrf"' not in page.get(address).text  # nothing to decide


def test_reports_are_by_number_and_none_is_elsewhere(
    page: TestClient, address: str, run_dir: Path, tmp_path: Path
) -> None:
    assert (
        page.get(f"{address}/report/0").content == (run_dir / "report" / "report.html").read_bytes()
    )
    secret = tmp_path / "secret"
    secret.write_text("top secret")
    (run_dir / "report" / "report.html").unlink()
    (run_dir / "report" / "report.html").symlink_to(secret)
    assert page.get(f"{address}/report/0").status_code == 404


def test_texts_are_escaped_and_reports_have_no_origin(
    run_dir: Path, page: TestClient, address: str
) -> None:
    fields = {"headline": HOSTILE, "reasons": [HOSTILE]}
    rewrite(run_dir / "report" / "verdict.json", lambda plain: plain["cells"][0].update(fields))
    assert post(page, address, form(page, address, reason=HOSTILE)) == 303
    for at in ("/home/", address):
        answer = page.get(at)
        assert (
            "<script>alert" not in answer.text
            and "<img" not in answer.text
            and "\x1b" not in answer.text
        )
        assert "&lt;script&gt;" in answer.text
        policy = answer.headers["content-security-policy"]
        assert (
            "default-src 'none'" in policy
            and "script-src" not in policy
            and "unsafe-inline" not in policy
        )
        assert "frame-ancestors 'none'" in policy and answer.headers["cache-control"] == "no-store"
    shown = page.get(f"{address}/report/0").headers
    assert shown["content-security-policy"].startswith("sandbox allow-scripts;")
    assert (
        "allow-same-origin" not in shown["content-security-policy"]
        and shown["x-content-type-options"] == "nosniff"
    )
    assert 'sandbox="allow-scripts"' in page.get(address).text


def test_a_suite_shows_the_page_of_each_run(run_dir: Path, keys: Path, tmp_path: Path) -> None:
    panel = tmp_path / "panel"
    shutil.copytree(run_dir / "report", panel / "report")
    write_panel(panel, [run_dir])
    browser = client(tmp_path, keys)
    (address,) = set(re.findall(r'href="(/home/run/[0-9a-f]{20})"', browser.get("/home/").text))
    assert [browser.get(f"{address}/report/{k}").status_code for k in range(3)] == [200, 200, 404]
    assert (
        post(browser, address, form(browser, address)) == 303
        and (panel / "decisions" / "0001.dsse.json").is_file()
    )


def test_who_cannot_decide_starts_no_page(
    run_dir: Path, keys: Path, tmp_path: Path, capsys: Capsys, monkeypatch: Patch
) -> None:
    with pytest.raises(ConfigError, match="no public key among the trusted"):
        create_app(reviewing(run_dir.parent, keys, AT, "mallory"))
    trusted = ["--keys", str(keys / "trusted")]
    monkeypatch.delenv("AUDIT_TRUSTED_KEYS", raising=False)
    for words, says in (
        ([str(run_dir.parent), "--key", str(keys / "alice.key")], "whose decisions count"),
        ([str(tmp_path / "nowhere"), *trusted, "--key", str(keys / "alice.key")], "holds no run"),
        ([str(run_dir.parent), *trusted, "--key", str(tmp_path / "nokey")], "cannot be read"),
    ):
        assert review(["serve", *words]) == 1 and says in capsys.readouterr().err
    with socket.create_server(("127.0.0.1", 0)) as busy:
        words = [str(run_dir.parent), *trusted, "--key", str(keys / "alice.key")]
        assert review(["serve", *words, "--port", str(busy.getsockname()[1])]) == 1
