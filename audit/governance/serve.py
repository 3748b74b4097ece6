"""Serve the web page for reviewers.

The page shows the queue of runs and each report. It signs decisions with the key of the person who
started the server.

Three defences protect the page:

- Every request needs a session. The token opens the session, and works only once. Scripts and other
  sites cannot read the session's cookie. Browsers send the cookie only below an unguessable path,
  since browsers do not separate cookies by port, and 127.0.0.1 may have other servers.
- A decision needs three things: a secret that only this page contains, the origin of this page, and
  the hash of the files that the reviewer saw.
- A report contains hostile text. Therefore it is shown in a sandbox without an origin, so that the
  report cannot read this page or send data to any server.
"""

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import wraps
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import uvicorn
from jinja2 import Environment, PackageLoader, StrictUndefined
from securesystemslib.signer import Signer
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from audit.core.errors import AuditError
from audit.core.exits import one_line
from audit.core.guarded_files import read_bytes
from audit.governance.formats import as_text
from audit.governance.keys import load_trusted, sha256, signer_of
from audit.governance.reviews import MAX_REASON, Bound, Kind
from audit.governance.ruling import (
    Register,
    bound_to,
    decide_on,
    home_of,
    queue,
    rule_run,
    ruling_with_decisions,
    verdict_path,
)
from audit.judging.decision import Decision, Ruling
from audit.shards.panel import panel_runs

SESSION = "audit_review"
_MAX_BODY = 64 * 1024
PATIENCE_S = 10.0
_SESSION = timedelta(hours=12)
_DOES = {
    Kind.APPROVE: "lets the run pass, whose verdict asks for a review",
    Kind.OVERRIDE: "lets the run pass all the same",
    Kind.REJECT: "blocks the run",
}
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Requests within this site may state a referrer. Otherwise the browser would send Origin: null
    # with this program's own form.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
}
# The policy that each report contains allows two scripts by their hashes. The policy below also
# removes the report's origin, even if the report is opened outside the frame.
_MAX_PAGE = 256 << 20
_SANDBOX = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'self'"
)
_PAGES = Environment(
    loader=PackageLoader("audit", "governance"), autoescape=True, undefined=StrictUndefined
)


@dataclass(frozen=True)
class Reviewing:
    """Hold the settings of one reviewer's server.

    Parameters
    ----------
    folder : Path
        The folder that contains the runs, at any depth.
    signer : Signer
        The reviewer's private key.
    keys : Path
        The folder of trusted keys.
    approvals : int
        The number of people who must let a run pass.
    check : callable or None
        A function that compares the decisions with a registry; see `ruling_with_decisions`.
    registry : Register or None
        A function that records a decision in a registry.
    token : str
        The secret that opens the session once.
    hosts : frozenset of str
        The host names that a browser may use.
    home : str
        The first part of the path of every page, which nobody can guess.
    now : callable
        Returns the current time.
    """

    folder: Path
    signer: Signer
    keys: Path
    approvals: int
    check: Callable[[Path, Bound], None] | None
    registry: Register | None
    token: str
    hosts: frozenset[str]
    home: str = field(default_factory=lambda: secrets.token_hex(16))
    now: Callable[[], datetime] = lambda: datetime.now(UTC)


class _Impatient(H11Protocol):
    """Close a connection that sends no request for a while.

    The number of connections is limited, so an unused connection may block others.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer of a new connection."""
        super().connection_made(transport)
        self.loop.call_later(PATIENCE_S, lambda: transport.close() if self.cycle is None else None)


def create_server(app: Starlette) -> uvicorn.Server:
    """Return a server for the application. The caller opens the sockets."""
    quiet: dict[str, Any] = {"log_level": "warning", "access_log": False, "server_header": False}
    return uvicorn.Server(uvicorn.Config(app, http=_Impatient, limit_concurrency=100, **quiet))


def create_app(review: Reviewing) -> Starlette:
    """Return the web application of a reviewer.

    Raises ConfigError if the gate does not trust the reviewer's key.
    """
    site = _Site(review, signer_of(review.signer, load_trusted(review.keys)))
    pages = [
        Route("/", site.guarded(site.listed), methods=["GET"]),
        Route(
            "/run/{name}",
            site.guarded(lambda request, _: site.shown(request.path_params["name"])),
            methods=["GET"],
        ),
        Route("/run/{name}", site.guarded(site.decided), methods=["POST"]),
        Route("/run/{name}/report/{number}", site.guarded(site.report), methods=["GET"]),
    ]
    below = Mount(f"/{review.home}", routes=pages)
    below.app.redirect_slashes = False  # type: ignore[attr-defined]  # only these addresses exist
    # The root path refuses browsers that do not know the secret path, with status 401.
    return Starlette(routes=[Route("/login", site.login, methods=["GET"]), pages[0], below])


class _Site:
    """Answer the requests to one reviewer's pages.

    `session` and `csrf` are secrets that a browser must present. New secrets are made at every
    start.
    """

    def __init__(self, review: Reviewing, signer: str) -> None:
        self.review = review
        self.signer = signer
        self.session, self.csrf = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        self.opened: datetime | None = None

    def page(self, status: int = 200, **shown: Any) -> HTMLResponse:
        """Render the page's template with the given values.

        The content security policy of the page allows only the page's own style.
        """
        nonce = secrets.token_urlsafe(16)
        text = _PAGES.get_template("review.html.j2").render(
            nonce=nonce, signer=self.signer, home=f"/{self.review.home}", **{"error": "", **shown}
        )
        policy = (
            f"default-src 'none'; style-src 'nonce-{nonce}'; img-src data:; frame-src 'self'; form-action 'self'; "
            "base-uri 'none'; frame-ancestors 'none'"
        )
        data = text.encode("utf-8", "backslashreplace")
        return HTMLResponse(data, status, headers={**_HEADERS, "Content-Security-Policy": policy})

    def guarded(
        self, answer: Callable[[Request, bytes], Response]
    ) -> Callable[[Request], Awaitable[Response]]:
        """Return an endpoint that answers only requests within the open session.

        Parameters
        ----------
        answer : callable
            A function that takes a request and its body, and returns the response. It runs in a
            thread, so it may read files.

        Returns
        -------
        callable
            The endpoint. It refuses other hosts, expired sessions and long bodies.
        """

        @wraps(answer)
        async def check(request: Request) -> Response:
            """Return the response to a request, or refuse the request."""
            if request.headers.get("host", "") not in self.review.hosts:
                return _refused(421, "Not this host.")
            if not _same(request.cookies.get(SESSION, ""), self.session):
                return _refused(401, "Open the address that audit review serve printed.")
            if (
                self.opened is None
                or not self.opened <= self.review.now() <= self.opened + _SESSION
            ):
                return _refused(401, "The session has ended. Start audit review serve again.")
            body = b""
            try:
                async for block in request.stream():
                    body += block
                    if len(body) > _MAX_BODY:
                        return _refused(413, "The request is too long for a decision.")
                return await run_in_threadpool(answer, request, body)
            except HTTPException:
                return _refused(404, "The run does not exist.")
            except ClientDisconnect:
                return _refused(400, "The request ended early.")
            except AuditError as error:
                return _refused(500, one_line(error))

        return check

    async def login(self, request: Request) -> Response:
        """Open the session if the request has the token. The token works only once."""
        if request.headers.get("host", "") not in self.review.hosts:
            return _refused(421, "Not this host.")
        if not _same(request.query_params.get("token", ""), self.review.token):
            return _refused(403, "Wrong token.")
        if self.opened is not None:
            return _refused(
                403, "This address was opened already. Not by you? Start audit review serve again."
            )
        self.opened = self.review.now()
        answer = RedirectResponse(f"/{self.review.home}/", 303, headers=_HEADERS)
        answer.set_cookie(
            SESSION, self.session, httponly=True, samesite="strict", path=f"/{self.review.home}"
        )
        return answer

    def listed(self, request: Request, body: bytes) -> Response:
        """Return the page with the queue of runs. Runs that do not pass come first."""
        rows = []
        for name, run_dir in _runs(self.review.folder).items():
            ruling = _ruling(self.review, run_dir)
            row = {
                "id": name,
                "name": _shown(run_dir, self.review.folder),
                "decision": str(ruling.decision),
            }
            rows.append(
                {
                    **row,
                    "problem": one_line(ruling.problem),
                    "decided": list(map(one_line, ruling.decided)),
                }
            )
        rows.sort(key=lambda row: (row["decision"] == Decision.PASS, row["name"]))
        return self.page(title="Audits", runs=rows)

    def shown(self, name: str, error: str = "", status: int = 200) -> HTMLResponse:
        """Return the page of a run, with the kinds of decisions that would have an effect.

        Parameters
        ----------
        name : str
            The run's name in the queue.
        error : str
            The reason why the last decision was refused; "" if it was not refused.
        status : int
            The HTTP status.

        Returns
        -------
        HTMLResponse
            The page of the run.
        """
        run_dir = _run(self.review.folder, name)
        ruling = _ruling(self.review, run_dir)
        passing = {Decision.REVIEW: [Kind.APPROVE, Kind.OVERRIDE], Decision.PASS: []}
        effective = [*passing.get(ruling.verdict_decision, [Kind.OVERRIDE]), Kind.REJECT]
        kinds = [] if ruling.problem else [(kind, _DOES[kind]) for kind in effective]
        pages = [{"name": _shown(path.parent, self.review.folder)} for path in _reports(run_dir)]
        return self.page(
            status,
            title=_shown(run_dir, self.review.folder),
            run=name,
            csrf=self.csrf,
            seen=_seen(run_dir, ruling),
            kinds=kinds,
            max_reason=MAX_REASON,
            error=error or one_line(ruling.problem),
            ruling=as_text(ruling),
            decision=str(ruling.decision),
            decided=list(map(one_line, ruling.decided)),
            pages=pages,
        )

    def report(self, request: Request, body: bytes) -> Response:
        """Return a report in a sandbox, for the frame on the page of the report's run."""
        # A report is served only to a frame. If a report had its own tab, it could open another
        # site in this tab.
        if request.headers.get("sec-fetch-dest", "iframe") != "iframe":
            return _refused(403, "A report is shown inside the page of its run.")
        paths = _reports(_run(self.review.folder, request.path_params["name"]))
        by_number = {str(number): path for number, path in enumerate(paths)}
        path = by_number.get(request.path_params["number"])
        if path is None:
            return _refused(404, "The report does not exist.")
        return HTMLResponse(
            read_bytes(path, _MAX_PAGE), headers={**_HEADERS, "Content-Security-Policy": _SANDBOX}
        )

    def decided(self, request: Request, body: bytes) -> Response:
        """Sign the decision in a submitted form, and return to the page of the run."""
        review, name = self.review, request.path_params["name"]
        origins = []
        for scheme in ("http", "https"):
            origins.append(f"{scheme}://{request.headers['host']}")
        if request.headers.get("origin", "") not in origins:
            return _refused(403, "A decision has to come from this page.")
        if request.headers.get("content-type", "") != "application/x-www-form-urlencoded":
            return _refused(415, "Expected the page's own form.")
        given = dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
        if not _same(given.get("csrf", ""), self.csrf):
            return _refused(403, "The page is of another session. Open it again.")
        run_dir = _run(review.folder, name)
        ruling = rule_run(run_dir)
        if not _same(given.get("seen", ""), _seen(run_dir, ruling)):
            return self.shown(
                name, "The run changed since you opened this page. Read it again, then decide.", 409
            )
        if given.get("kind") not in set(Kind):
            return self.shown(name, "Expected approve, reject or override.", 400)
        kind = Kind(given["kind"])
        expires = given.get("expires", "").strip() if kind != Kind.REJECT else ""
        try:
            decide_on(
                run_dir,
                ruling,
                kind,
                reason=given.get("reason", ""),
                expires=expires or None,
                signer=review.signer,
                trusted=load_trusted(review.keys),
                now=review.now(),
                registry=review.registry,
            )
        except AuditError as error:
            return self.shown(name, one_line(error), 400)
        return RedirectResponse(f"/{self.review.home}/run/{name}", 303, headers=_HEADERS)


def _runs(folder: Path) -> dict[str, Path]:
    """Map names to the runs in the queue.

    The name of a run is a hash of its path. Therefore no text from a browser is ever used as a
    path.
    """
    return {sha256(str(run.resolve()).encode())[:20]: run for run in queue(folder)}


def _run(folder: Path, name: str) -> Path:
    runs = _runs(folder)
    if name not in runs:
        raise HTTPException(404)
    return runs[name]


def _ruling(review: Reviewing, run_dir: Path) -> Ruling:
    return ruling_with_decisions(run_dir, review.keys, review.approvals, review.now(), review.check)


def _seen(run_dir: Path, ruling: Ruling) -> str:
    """Return a hash of all files that a decision on the run would cover now.

    The hash is "" if the run has a problem, so that nobody can decide on this run.
    """
    return (
        ""
        if ruling.problem
        else sha256(json.dumps(bound_to(run_dir, ruling).subjects, sort_keys=True).encode())
    )


def _reports(run_dir: Path) -> list[Path]:
    """Return the path of the report of a run, or the paths of the reports of a suite and its runs.

    Links that lead out of the folder are left out.
    """
    homes = [home_of(run_dir), *(panel_runs(run_dir) or [])]
    pages = [verdict_path(home).with_name("report.html") for home in homes]
    existing = []
    for page in pages:
        if page.is_file() and page.resolve().is_relative_to(page.parent.parent.resolve()):
            existing.append(page)
    return existing


def _shown(path: Path, folder: Path) -> str:
    name = path.relative_to(folder).as_posix() if path.is_relative_to(folder) else path.name
    return one_line(name if name != "." else path.resolve().name)


def _same(given: str, wanted: str) -> bool:
    """Return whether two secrets are equal, in constant time. If `wanted` is empty, return
    False.
    """
    return bool(wanted) and secrets.compare_digest(
        given.encode("utf-8", "replace"), wanted.encode()
    )


def _refused(status: int, why: str) -> PlainTextResponse:
    return PlainTextResponse(f"{why}\n", status, headers=_HEADERS)
