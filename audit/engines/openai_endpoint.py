"""Call one OpenAI-compatible endpoint.

The module contains the HTTP client, the function that attempts a request once, and the health
check.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from http.cookiejar import CookieJar, DefaultCookiePolicy
from urllib.parse import urlsplit

import httpx2
import openai

from audit.core.records import Generation
from audit.core.records import GenerationRequest as Request
from audit.engines import retry as policy
from audit.engines.config import ModelConfig
from audit.engines.dispatch import Slot
from audit.engines.openai_config import INFER, EndpointConfig, RetryConfig, endpoint_id, safe_url
from audit.engines.openai_contact import FINAL, NO_KEY, Finding, shown
from audit.engines.openai_wire import (
    REPLY_LIMIT_BYTES,
    chat_body,
    listed_models,
    read_chat,
    read_infer,
)
from audit.engines.pace import Pace
from audit.engines.redact import Redactor
from audit.engines.retry import Failure, Kind


class ReplyRefusedError(Exception):
    """Report that a reply was refused.

    A reply is refused if it is longer than the limit, or if it is compressed although no
    compression was requested.
    """


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = REPLY_LIMIT_BYTES
        async for chunk in self._stream:
            left -= len(chunk)
            if left < 0:
                raise ReplyRefusedError(
                    f"the reply is longer than {REPLY_LIMIT_BYTES // 2**20} MiB"
                )
            yield chunk

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()


async def _bound(response: httpx2.Response) -> None:
    if response.headers.get("content-encoding", "identity").casefold() != "identity":
        raise ReplyRefusedError(
            "the reply is compressed, although no compression was requested; a small body may decode to any size"
        )
    assert isinstance(response.stream, httpx2.AsyncByteStream)  # noqa: S101 - narrows the type for mypy
    response.stream = _Bounded(response.stream)
    response.encoding = (
        "utf-8"  # JSON is UTF-8 (RFC 8259). Python fails on charsets such as hex or idna.
    )


def _text(body: bytes) -> str:
    """Return the text of a reply's body.

    Raises ReplyRefusedError if the body is not UTF-8, since the library would replace the invalid
    characters.
    """
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        raise ReplyRefusedError("the reply is not UTF-8") from None


def bounded_client(concurrency: int) -> openai.DefaultAsyncHttpxClient:
    """Return the HTTP client of one endpoint.

    Parameters
    ----------
    concurrency : int
        The number of idle connections to keep open. By default the library keeps only 100.

    Returns
    -------
    AsyncHttpxClient
        The client. It follows no redirects, since a redirect would send the benchmark's text to
        another host. It limits the size of replies. It stores no cookies, since a server could add
        cookies with each reply.
    """
    return openai.DefaultAsyncHttpxClient(
        follow_redirects=False,
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        headers={"Accept-Encoding": "identity"},
        event_hooks={"response": [_bound]},
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=concurrency),
    )


_CONNECT_TIMEOUT_S = 10.0
# This maps the client's exceptions to kinds of failures. A connection error with any other cause
# means that an open connection broke.
_CAUSES = {
    **dict.fromkeys(("ConnectError", "ConnectTimeout", "ProxyError"), Kind.UNAVAILABLE),
    **dict.fromkeys(("ReadTimeout", "WriteTimeout"), Kind.TIMEOUT),
}
# If GET /models fails with one of these HTTP statuses, chat completions may still work. For
# example, status 403 may mean that the key is valid only for some paths.
_NO_LISTING = frozenset({400, 403, 404, 405, 501})
HELLO = Request("Hello", affinity="health-check", label="health-check", seed=0, max_tokens=1)


class Endpoint:
    """Call one endpoint with an HTTP client.

    The client holds the key, which is never shown. `slot` is the endpoint's state in the
    dispatcher.
    """

    def __init__(
        self, name: str, config: EndpointConfig, model: ModelConfig, key: str, redactor: Redactor
    ) -> None:
        self.config = config
        self.slot = Slot(
            name,
            config.weight,
            config.concurrency,
            model.circuit,
            pace=Pace(config.rpm, config.tpm),
        )
        self.id = endpoint_id(config)
        self.last_failure = ""
        self._model = model
        self._redactor = redactor
        self._key_is_set = bool(key)
        connect_s = min(_CONNECT_TIMEOUT_S, config.timeout_s / 2)
        self._client = openai.AsyncOpenAI(
            api_key=key or NO_KEY,
            base_url=config.url.rstrip("/").removesuffix(INFER) if config.infers else config.url,
            max_retries=0,  # The engine retries by itself, possibly at another endpoint.
            timeout=openai.Timeout(config.timeout_s, connect=connect_s),
            http_client=bounded_client(config.concurrency),
        )

    @property
    def shown(self) -> str:
        """Return the URL without secrets, followed by the model's name, for messages."""
        return shown(self.config)

    async def attempt(self, request: Request) -> Generation | Failure:
        """Make one call within `timeout_s`.

        Parameters
        ----------
        request : Request
            The prompt to send, with its token limit and sampling settings.

        Returns
        -------
        Generation or Failure
            The reply, or the reason why the call failed. The method raises no exception.
        """
        reply = await self._call(request)
        if isinstance(reply, Failure):
            return reply
        if self.config.infers:
            return read_infer(reply, request, self.id, self._redactor)
        return read_chat(
            reply, request, self.id, self._redactor, self.config.reply_model or self.config.model
        )

    async def check(self, letters: bool = False) -> Failure | None:
        """Check that the endpoint serves its model.

        Parameters
        ----------
        letters : bool
            Whether to check that the endpoint returns log-probabilities of letters.

        Returns
        -------
        Failure or None
            The failure; None if GET /models lists the model, or if one token could be generated.
        """
        models: list[str] = []
        if not self.config.infers:
            listed = await self._call(None)
            if isinstance(listed, str):
                models = listed_models(listed)
            elif listed.status not in _NO_LISTING:
                return listed
        if self.config.model in models and not letters:
            return None
        # The endpoint has no /models, or /models does not list the model's name. Therefore the
        # check asks the model for one token.
        reply = await self.attempt(replace(HELLO, letters=("A", "B")) if letters else HELLO)
        if isinstance(reply, Generation):
            return None
        if self.config.infers or not (
            reply.status == 404 or (reply.kind is Kind.ROW and not letters)
        ):
            return reply
        listed_names = self._redactor.message(", ".join(models)) if models else "none"
        url = safe_url(self.config.url)
        expected = f"Expected one that {url}/models lists."
        if not urlsplit(self.config.url).path.strip("/"):
            expected = f"Expected the address of its API, such as {url.rstrip('/')}/v1."
        message = f"{reply.message} (models that it lists: {listed_names}). {expected}"
        return Failure(Kind.ROW, message, status=reply.status)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    def finding(self, failure: Failure | None) -> Finding:
        """Return the result of a check of this endpoint."""
        return Finding(self.config, self._key_is_set, failure)

    async def _call(self, request: Request | None) -> str | Failure:
        """Return the body of a reply with status 200, or the failure.

        The call is GET /models if `request` is None, and chat completions otherwise.

        Failures are returned and not raised. The client's exceptions contain the request's headers,
        and therefore the key.
        """
        try:
            async with asyncio.timeout(self.config.timeout_s):
                if request is None:
                    return _text((await self._client.models.with_raw_response.list()).content)
                if self.config.infers:
                    body = {"prompt": request.prompt, "task_id": request.affinity}
                    sent = self._client.post(INFER, cast_to=httpx2.Response, body=body)
                    return _text((await sent).content)
                reply = await self._client.chat.completions.with_raw_response.create(
                    model=self.config.model,
                    messages=request.messages,
                    extra_body=chat_body(request, self._model, self.config),
                )
                self.slot.pace.learn(reply.headers, time.monotonic())
                return _text(reply.content)
        except TimeoutError:
            return self._no_reply()
        except openai.APIStatusError as error:
            code, message = policy.error_code_and_message(error.body)
            wait_s = policy.retry_after_seconds(error.response.headers)
            self.slot.pace.learn(error.response.headers, time.monotonic())
            return policy.classify_status(error.status_code, code, message, wait_s)
        except openai.APIConnectionError as error:
            kind = _CAUSES.get(type(error.__cause__).__name__, Kind.SERVER)
            if kind is Kind.TIMEOUT:
                return self._no_reply()
            message = f"connection failed: {type(error.__cause__).__name__}"
            if kind is Kind.UNAVAILABLE:
                # The message quotes only the operating system. The client's own message about a
                # broken reply would quote the server.
                message += f": {error.__cause__}"
            return Failure(kind, self._redactor.message(message))
        except ReplyRefusedError as error:
            return Failure(Kind.MALFORMED, f"refused: {error}")
        except UnicodeEncodeError:
            return Failure(
                Kind.ROW, "request refused: the prompt holds characters that UTF-8 cannot encode"
            )
        except openai.OpenAIError as error:
            return Failure(
                Kind.MALFORMED, self._redactor.message(f"{type(error).__name__}: {error}")
            )

    def _no_reply(self) -> Failure:
        return Failure(Kind.TIMEOUT, f"no reply within {self.config.timeout_s:g} s")


_CONNECT_ATTEMPTS = 2  # number of attempts to connect to an endpoint at the start of a run


async def check_patiently(
    endpoint: Endpoint, retry: RetryConfig, rng: random.Random
) -> Failure | None:
    """Check an endpoint, with retries if the kind of failure allows them.

    Parameters
    ----------
    endpoint : Endpoint
        The endpoint to check.
    retry : RetryConfig
        The settings of retries after failures.
    rng : random.Random
        Source of the random part of the delays.

    Returns
    -------
    Failure or None
        The last failure; None if the endpoint serves its model.
    """
    failure: Failure | None = None
    for attempt in range(1, retry.max_attempts + 1):
        failure = await endpoint.check()
        if failure is None or failure.kind in FINAL:
            return failure
        endpoint.last_failure = failure.message
        if failure.kind is Kind.UNAVAILABLE and not failure.status and attempt >= _CONNECT_ATTEMPTS:
            return failure  # no server listens at this address, so a retry is useless
        if attempt < retry.max_attempts:
            await asyncio.sleep(policy.backoff_seconds(retry, attempt, rng, failure.retry_after_s))
    return failure


async def probed(endpoint: Endpoint, within_s: float, letters: bool) -> Failure | None:
    """Check an endpoint once.

    Parameters
    ----------
    endpoint : Endpoint
        The endpoint to check.
    within_s : float
        Time limit of the whole check, in seconds.
    letters : bool
        Whether to check that the endpoint returns log-probabilities of letters.

    Returns
    -------
    Failure or None
        A lasting failure; None if the check succeeded, or if the failure may pass by itself.
    """
    try:
        async with asyncio.timeout(within_s):
            failure = await endpoint.check(letters)
    except TimeoutError:
        return None
    if failure is None or failure.kind in FINAL:
        return failure
    if failure.kind in policy.BAD_REPLY:
        return replace(failure, kind=Kind.ROW)
    endpoint.last_failure = failure.message
    lasts = failure.kind is Kind.UNAVAILABLE and (not failure.status or 300 <= failure.status < 400)
    return failure if lasts else None


def last_failures(endpoints: Sequence[Endpoint]) -> str:
    """Describe the last failure of each endpoint in one line."""
    return " ".join(f"{e.shown}: {e.last_failure or 'no failure seen'}." for e in endpoints)
