"""Check endpoints with only the standard library, and describe why an endpoint cannot serve its
model.

The client of the `openai` engine takes two CPU seconds to import. A single request, GET /models,
does not need this client. Its reply distinguishes the common cases: no server answers, the key is
wrong, or the model is listed.
"""

import http.client
import os
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

from audit.core.errors import AuditError, EndpointAuthError, EngineLoadError
from audit.engines.openai_config import EndpointConfig, safe_url
from audit.engines.openai_wire import listed_models
from audit.engines.redact import Redactor
from audit.engines.retry import Failure, Kind, classify_status

# This text is sent as the key if the environment variable `api_key_env` is not set. Without any key
# the client would send the value of OPENAI_API_KEY.
NO_KEY = "no-key-set"
FINAL = frozenset({Kind.AUTH, Kind.QUOTA, Kind.ROW})
LIST_WITHIN_S = 10.0  # time limit for the first byte of the list of models
_LIST_LIMIT_BYTES = 4 * 2**20


def shown(config: EndpointConfig) -> str:
    """Return the endpoint's URL without secrets, followed by the model's name, for messages."""
    return f"{safe_url(config.url)} (model {config.model})"


@dataclass(frozen=True)
class Finding:
    """Hold the result of the check of an endpoint. `failure` is None if the endpoint serves its
    model.
    """

    config: EndpointConfig
    key_is_set: bool
    failure: Failure | None

    def refused_key(self, failure: Failure) -> str:
        """Return the message for a user whose key was refused."""
        name = self.config.api_key_env
        state = "is set, but its key is not accepted" if self.key_is_set else "is not set"
        return (
            f"Endpoint {shown(self.config)} refused the key ({failure.message}). "
            f"The environment variable {name} {state}. "
            f"Expected a valid key there: export {name}=..., or name another variable with api_key_env."
        )


def refusal(findings: Sequence[Finding]) -> AuditError | None:
    """Return the error if the endpoints of a model cannot serve this model.

    Parameters
    ----------
    findings : sequence of Finding
        The result of the check of each endpoint of the model.

    Returns
    -------
    AuditError or None
        The error. None if at least one endpoint serves the model, and no endpoint has a fault that
        would last.
    """
    failed = [(finding, finding.failure) for finding in findings if finding.failure is not None]
    for finding, failure in failed:
        if failure.kind is Kind.AUTH:
            return EndpointAuthError(finding.refused_key(failure))
        if failure.kind in FINAL:
            return EngineLoadError(
                f"Endpoint {shown(finding.config)} cannot serve: {failure.message}"
            )
    if len(failed) < len(findings):
        return None
    why = " ".join(f"{shown(finding.config)}: {failure.message}." for finding, failure in failed)
    expected = "an OpenAI-compatible server. Example: vllm serve <model> --port 8000"
    if "CERTIFICATE_VERIFY_FAILED" in why:
        expected = "a trusted certificate. For a certificate of your own: export SSL_CERT_FILE=/path/ca.pem"
    return EngineLoadError(f"No endpoint answered. {why} Expected {expected}")


class FirstContact:
    """Request the list of models of one endpoint.

    The request is sent in a thread, which starts when the object is made.

    Parameters
    ----------
    config : EndpointConfig
        Settings of the endpoint, such as its URL.
    within_s : float
        Time limit for the first byte of the list.
    """

    def __init__(self, config: EndpointConfig, within_s: float = LIST_WITHIN_S) -> None:
        self._config = config
        self._within_s = min(within_s, config.timeout_s)
        self._key = os.environ.get(config.api_key_env, "").strip()
        self._deadline = time.monotonic() + self._within_s
        self._replied = False
        self._finding: Finding | None = None
        # The thread is a daemon. Otherwise a server that sends a byte now and then could keep the
        # process alive.
        self._thread = Thread(target=self._contact, daemon=True)
        self._thread.start()

    def finding(self) -> Finding | None:
        """Wait for the reply, and return the result of the check.

        Returns
        -------
        Finding or None
            The result. None if the reply does not show whether the endpoint serves the model; the
            full client must then check the endpoint.
        """
        self._thread.join(max(0.0, self._deadline - time.monotonic()))
        if self._thread.is_alive() and not self._replied:
            return self._failed(self._silent())
        return self._finding

    def _contact(self) -> None:
        try:
            if self._config.infers:
                self._connect()
            elif _direct(self._config.url) and self._key.isascii() and self._key.isprintable():
                self._list()
        except TimeoutError:
            self._finding = None if self._replied else self._failed(self._silent())
        except (ConnectionRefusedError, socket.gaierror) as error:
            message = Redactor([self._key]).message(f"connection failed: {error}")
            self._finding = self._failed(Failure(Kind.UNAVAILABLE, message))
        # The full client decides about problems with certificates and about unusual replies or
        # addresses.
        except (OSError, http.client.HTTPException, ValueError):
            self._finding = None

    def _connect(self) -> None:
        url = urlsplit(self._config.url)
        port = url.port or (443 if url.scheme == "https" else 80)
        if _direct(self._config.url):
            socket.create_connection((url.hostname, port), self._within_s).close()

    def _list(self) -> None:
        request = urllib.request.Request(  # noqa: S310 - the scheme was checked
            f"{self._config.url.rstrip('/')}/models",
            headers={
                "Authorization": f"Bearer {self._key or NO_KEY}",
                "User-Agent": "benchmark-audit",
            },
        )
        opener = urllib.request.build_opener(_NoRedirect)
        try:
            with opener.open(request, timeout=self._within_s) as reply:
                self._replied = True
                body = reply.read(_LIST_LIMIT_BYTES).decode("utf-8")
        except urllib.error.HTTPError as error:
            with error:
                self._replied = True
                failure = classify_status(error.code, "", "")
                if error.code == http.client.UNAUTHORIZED:
                    self._finding = self._failed(failure)
            return
        except urllib.error.URLError as error:
            raise error.reason if isinstance(error.reason, OSError) else error from None
        if self._config.model in listed_models(body):
            self._finding = self._failed(None)

    def _failed(self, failure: Failure | None) -> Finding:
        return Finding(self._config, bool(self._key), failure)

    def _silent(self) -> Failure:
        message = f"the server sent no list of models within {self._within_s:g} s"
        return Failure(Kind.TIMEOUT, message)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuse redirects, since a redirect would send the key to another server."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Return None, so that urllib treats the redirect as an error."""


def _direct(url: str) -> bool:
    """Return whether requests to the URL use no proxy."""
    parts = urlsplit(url)
    proxies = urllib.request.getproxies()
    proxied = parts.scheme in proxies or "all" in proxies
    return not proxied or bool(urllib.request.proxy_bypass(parts.hostname or ""))
