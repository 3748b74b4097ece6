"""Serve requests by OpenAI-compatible endpoints, as one implementation of the engine port.

Each request waits for an endpoint (`dispatch`), calls it, and reads the body (`openai_wire`). After
a failure, `retry` decides whether the row is stored as an error, another attempt is made, or the
run ends. During an outage no rows are stored as errors. Instead the run stops with EngineError, and
the same command resumes the run.
"""

import asyncio
import logging
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence

from audit.core.errors import (
    ConfigError,
    EndpointAuthError,
    EngineError,
)
from audit.core.records import FinishReason, Generation
from audit.core.records import GenerationRequest as Request
from audit.engines.config import ModelConfig
from audit.engines.dispatch import Dispatcher, Lease, Slot
from audit.engines.openai_config import endpoint_id
from audit.engines.openai_contact import refusal
from audit.engines.openai_endpoint import (
    HELLO,
    Endpoint,
    check_patiently,
    last_failures,
    probed,
)
from audit.engines.pace import tokens_of
from audit.engines.port import BACKEND
from audit.engines.redact import RedactingFilter, Redactor
from audit.engines.retry import ALIVE, BAD_REPLY, ROW_SUSPECT, Failure, Kind, backoff_seconds

logger = logging.getLogger(__name__)

# Largest number of server versions that are counted separately. The limit is needed if every reply
# names a new version.
_BACKENDS = 20


class OpenAIEngine:
    """Call a set of endpoints that serve the same model.

    `rng` is the random number generator for the delays between retries.
    """

    precision = ""

    def __init__(self, config: ModelConfig, rng: random.Random | None = None) -> None:
        self._config = config
        self._rng = rng or random.Random()
        self._clock: Callable[[], float] = time.monotonic
        self.engine_id = ",".join(sorted({endpoint_id(e) for e in config.endpoints}))
        self._endpoints: list[Endpoint] = []
        self._by_slot: dict[Slot, Endpoint] = {}
        self._dispatcher = Dispatcher(())
        self._log_filter = RedactingFilter(Redactor(()))
        self._last_answer = -float("inf")
        self._fatal: str | None = (
            # The error of an endpoint that refused its key. Once this error is set, no request is
            # sent.
            None
        )
        self._counts: Counter[str] = Counter(generations=0, error_rows=0, retries=0)

    async def start(self) -> None:
        """Check every endpoint. An endpoint that does not answer receives no requests until it
        answers a later test request.

        Raises
        ------
        EndpointAuthError
            If an endpoint refuses its key.
        EngineLoadError
            If no endpoint answers, or an endpoint does not serve its model.
        """
        await self.close()
        self._connect()
        try:
            retry = self._config.retry
            failures = await asyncio.gather(
                *(check_patiently(e, retry, self._rng) for e in self._endpoints)
            )
            self._leave_out(failures)
        except BaseException:
            await self.close()
            raise

    async def probe(self, within_s: float, *, letters: bool = False) -> None:
        """Check every endpoint once, and close the engine.

        Parameters
        ----------
        within_s : float
            Time limit of each check, in seconds.
        letters : bool
            Whether log-probabilities of letters are needed.

        Raises
        ------
        EndpointAuthError, EngineLoadError
            In the same cases as `start`. A failure that may pass by itself, such as a slow or busy
            server, raises no error.
        """
        self._connect()
        try:
            failures = await asyncio.gather(
                *(probed(e, within_s, letters) for e in self._endpoints)
            )
            self._leave_out(failures)
        finally:
            await self.close()

    async def run(self, requests: Sequence[Request], priority: int = 0) -> list[Generation]:
        """Return the replies in the order of the requests.

        Parameters
        ----------
        requests : sequence of Request
            Chat requests. Requests to score a given text are refused.
        priority : int
            Ignored.

        Returns
        -------
        list of Generation
            The replies. A reply has an `error` if an endpoint refuses its request, or if the
            request keeps failing while other requests are answered.

        Raises
        ------
        EndpointAuthError
            If a key is refused.
        EngineError
            If no endpoint answers for `retry.outage_s`. All other calls of this `run` are
            cancelled.
        """
        if any(request.continuations or request.pieces for request in requests):
            raise ConfigError(
                "The likelihood of a text needs engine vllm: an endpoint does not return it. Use reading=letter."
            )
        tasks = [asyncio.create_task(self._answer(request)) for request in requests]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def stats(self) -> dict[str, float]:
        """Return the engine's counters since its start.

        Returns
        -------
        dict
            Maps the name of each counter to its value:

            - `requests`: the number of finished requests (answers and error rows).
            - `retries`: the number of retries.
            - `backend:ENDPOINT SYSTEM_FINGERPRINT`, for each server version: the number of calls
              that this version answered.
        """
        requests = self._counts["generations"] + self._counts["error_rows"]
        return {name: float(n) for name, n in {**self._counts, "requests": requests}.items()}

    def trouble(self) -> str:
        """Describe the last failure of each endpoint, or how long requests wait if no endpoint
        failed.
        """
        if any(endpoint.last_failure for endpoint in self._endpoints):
            return last_failures(self._endpoints)
        sentences = []
        for endpoint, config in zip(self._endpoints, self._config.endpoints, strict=True):
            sentences.append(
                f"{endpoint.shown} does not answer; each request is given up after "
                f"timeout_s={config.timeout_s:g} and repeated."
            )
        return " ".join(sentences)

    async def close(self) -> None:
        """Close the connections. Waiting requests get EngineError."""
        self._dispatcher.fail_waiters(
            lambda: EngineError("The openai engine was closed while requests waited.")
        )
        self._dispatcher.close()
        for endpoint in self._endpoints:
            await endpoint.close()
        self._log_filter.remove()

    def _connect(self) -> None:
        keys = [os.environ.get(e.api_key_env, "").strip() for e in self._config.endpoints]
        for endpoint, key in zip(self._config.endpoints, keys, strict=True):
            if not (key.isascii() and key.isprintable()):
                raise EndpointAuthError(
                    f"The environment variable {endpoint.api_key_env} holds characters that an HTTP header cannot "
                    "carry (its value is not shown). Expected a key of printable ASCII characters in one line."
                )
        redactor = Redactor(keys)
        self._endpoints = []
        for number, (config, key) in enumerate(zip(self._config.endpoints, keys, strict=True)):
            self._endpoints.append(
                Endpoint(f"{number}:{config.url}", config, self._config, key, redactor)
            )
        self._log_filter = RedactingFilter(redactor)
        self._log_filter.install()
        self._by_slot = {endpoint.slot: endpoint for endpoint in self._endpoints}
        self._dispatcher = Dispatcher([endpoint.slot for endpoint in self._endpoints], self._clock)
        self._fatal = None
        self._counts = Counter(generations=0, error_rows=0, retries=0)

    def _leave_out(self, failures: Sequence[Failure | None]) -> None:
        """Take every endpoint whose check failed out of service.

        Raises EndpointAuthError or EngineLoadError in the cases that `start` lists.
        """
        pairs = list(zip(self._endpoints, failures, strict=True))
        error = refusal([endpoint.finding(failure) for endpoint, failure in pairs])
        if error is not None:
            raise error
        for endpoint, failure in pairs:
            if failure is None:
                continue
            endpoint.slot.take_out(self._clock())
            logger.warning(
                "endpoint %s does not answer and is left out: %s", endpoint.id, failure.message
            )

    # --- one request ---

    async def _answer(self, request: Request) -> Generation:
        started = failed_at = self._clock()
        failures = 0
        attempts_used = 0
        avoid: Slot | None = None
        while True:
            lease, endpoint, result = await self._ask(request, avoid)
            if isinstance(result, Generation):
                self._last_answer = self._clock()
                self._note_alive(lease, endpoint)
                self._count(result)
                return result
            failures += 1
            failed_before, failed_at = failed_at, self._clock()
            delay = backoff_seconds(self._config.retry, failures, self._rng, result.retry_after_s)
            self._note_failure(lease, endpoint, result, delay)
            if result.kind is Kind.ROW:
                return self._error_row(endpoint, result.message)
            attempts_used += result.kind in ROW_SUSPECT
            if result.kind in ROW_SUSPECT and attempts_used >= self._config.retry.max_attempts:
                if result.kind is Kind.OTHER_MODEL and not self._counts["generations"]:
                    raise EngineError(
                        f"Endpoint {endpoint.shown} returns replies of another model: {result.message}. Nothing was "
                        "recorded. If it is the same model under another name, set reply_model of the endpoint."
                    )
                if await self._others_are_answered(result.kind, started, failed_before):
                    return self._error_row(
                        endpoint, f"{result.message} (attempt {attempts_used} of {attempts_used})"
                    )
            quiet_s = self._clock() - max(self._last_answer, started)
            other = self._dispatcher.other_in_service(lease.slot)
            # One failure that took long is not an outage yet if another endpoint in service has not
            # been tried.
            all_tried = not other or failures >= len(self._endpoints)
            if quiet_s > self._config.retry.outage_s and all_tried:
                self._dispatcher.fail_waiters(self._outage)
                raise self._outage()
            avoid = lease.slot
            self._counts["retries"] += 1
            if other:
                delay = min(delay, backoff_seconds(self._config.retry, 1, self._rng))
            await asyncio.sleep(delay)

    async def _ask(
        self, request: Request, avoid: Slot | None = None
    ) -> tuple[Lease, Endpoint, Generation | Failure]:
        """Make one attempt at a request, at the next free endpoint.

        The caller must record the result with the dispatcher. This releases the lease (the
        endpoint's place for the request).
        """
        if self._fatal is not None:
            raise EndpointAuthError(self._fatal)
        tokens = tokens_of(request.system + request.prompt, request.max_tokens)
        lease = await self._dispatcher.acquire(request.affinity, avoid, tokens)
        endpoint = self._by_slot[lease.slot]
        try:
            result = await endpoint.attempt(request)
            if isinstance(result, Generation):
                used = result.prompt_tokens + result.completion_tokens
                if used:
                    lease.slot.pace.used(tokens, used)
            return lease, endpoint, result
        except BaseException:
            self._dispatcher.abandoned(lease)
            raise

    async def _others_are_answered(self, kind: Kind, started: float, failed_before: float) -> bool:
        """Return whether other requests are answered while this request keeps failing.

        A server under maintenance may reply to every request with an error page. After an error
        page, only answers that came after this request's last failure are counted.
        """
        if kind not in BAD_REPLY:
            return self._last_answer > started
        if self._last_answer > failed_before:
            return True
        # While the last row of a run is asked, there is no other request. A health check then shows
        # whether the row or the endpoint is at fault. A refusal of the health check counts as an
        # answer.
        lease, endpoint, result = await self._ask(HELLO)
        if isinstance(result, Generation):
            self._note_alive(lease, endpoint)
            return True
        self._note_failure(lease, endpoint, result, 0.0)
        return result.kind is Kind.ROW

    def _note_alive(self, lease: Lease, endpoint: Endpoint, pause_s: float = 0.0) -> None:
        if self._dispatcher.answered(lease, pause_s):
            logger.warning("endpoint %s answers again and is back in", endpoint.id)

    def _note_failure(
        self, lease: Lease, endpoint: Endpoint, failure: Failure, delay_s: float
    ) -> None:
        """Record a failure with the dispatcher.

        Raises an error if a failure of this kind ends the run.
        """
        endpoint.last_failure = failure.message
        logger.debug("endpoint %s: %s: %s", endpoint.id, failure.kind, failure.message)
        if failure.kind is Kind.RATE_LIMIT:
            self._note_alive(lease, endpoint, pause_s=delay_s)
        elif failure.kind in ALIVE:
            self._last_answer = self._clock()
            self._note_alive(lease, endpoint)
        elif self._dispatcher.failed(lease, pause_s=delay_s if failure.retry_after_s else 0.0):
            cooldown = self._config.circuit.cooldown_s
            logger.warning(
                "endpoint %s is out, next try in %g s: %s", endpoint.id, cooldown, failure.message
            )
        if failure.kind is Kind.AUTH:
            self._fatal = fatal = endpoint.finding(failure).refused_key(failure)
            self._dispatcher.fail_waiters(lambda: EndpointAuthError(fatal))
            raise EndpointAuthError(fatal)
        if failure.kind is Kind.QUOTA:
            raise EngineError(
                f"Endpoint {endpoint.shown} has no quota left: {failure.message} The requests under way were not "
                "recorded. Add quota, and type the same command again to continue."
            )

    def _count(self, generation: Generation) -> None:
        self._counts["generations"] += 1
        if generation.backend:
            key = f"{BACKEND}{generation.engine_id} {generation.backend}"
            known = (
                key in self._counts or sum(k.startswith(BACKEND) for k in self._counts) < _BACKENDS
            )
            self._counts[key if known else f"{BACKEND}{generation.engine_id} others"] += 1

    def _error_row(self, endpoint: Endpoint, message: str) -> Generation:
        self._counts["error_rows"] += 1
        return Generation(finish_reason=FinishReason.ERROR, engine_id=endpoint.id, error=message)

    def _outage(self) -> EngineError:
        return EngineError(
            f"No endpoint has answered for {self._config.retry.outage_s:g} s (retry.outage_s). "
            f"{last_failures(self._endpoints)} The requests under way were not recorded. Type the same command "
            "again to continue."
        )
