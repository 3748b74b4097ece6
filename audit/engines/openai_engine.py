"""The `openai` engine: OpenAI-compatible endpoints behind the engine port.

Per request: wait for an endpoint (`dispatch`), call it, read the body (`openai_wire`), and on a failure decide what it
means (`retry`): an error row, another attempt elsewhere, or the end of the run. An outage is never recorded as rows'
errors: the run stops with EngineError and the same command resumes it."""

import asyncio
import logging
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from audit.engines.config import ModelConfig
from audit.engines.dispatch import Dispatcher, Lease, Slot
from audit.engines.openai_config import endpoint_id
from audit.engines.openai_endpoint import FINAL, HELLO, Endpoint, check_patiently, last_failures, probed
from audit.engines.pace import tokens_of
from audit.engines.port import BACKEND
from audit.engines.redact import RedactingFilter, Redactor
from audit.engines.retry import ALIVE, BAD_REPLY, ROW_SUSPECT, Failure, Kind, backoff_seconds
from audit.errors import AuditError, ConfigError, EndpointAuthError, EngineError, EngineLoadError
from audit.records import FinishReason, Generation
from audit.records import GenerationRequest as Request

logger = logging.getLogger(__name__)

_BACKENDS = 20  # versions that are counted apart: one that tells another each time fills no memory


class OpenAIEngine:
    """One set of endpoints that serve the same model. `rng` jitters the delays between retries and nothing else."""

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
        self._fatal: str | None = None  # an endpoint refused the key: nothing more is sent
        self._counts: Counter[str] = Counter(generations=0, error_rows=0, retries=0)

    async def start(self) -> None:
        """Check every endpoint. Those that do not answer are left out until they do, if at least one answers. Raises
        EndpointAuthError when an endpoint refuses its key, and EngineLoadError when none answers or one does not serve
        its model."""
        await self.close()
        self._connect()
        try:
            retry = self._config.retry
            found = await asyncio.gather(*(check_patiently(e, retry, self._rng) for e in self._endpoints))
            self._leave_out(found)
        except BaseException:
            await self.close()
            raise

    async def probe(self, within_s: float, *, letters: bool = False) -> None:
        """One check of at most `within_s` of every endpoint; the engine is closed again. letters: log-probabilities of
        letters are needed. Raises as `start` does, but for what may pass by itself (a server that is slow or busy)."""
        self._connect()
        try:
            found = await asyncio.gather(*(probed(e, within_s, letters) for e in self._endpoints))
            self._leave_out(found)
        finally:
            await self.close()

    async def run(self, requests: Sequence[Request], priority: int = 0) -> list[Generation]:
        """Generations in the order of `requests`. A request that an endpoint refuses, or that keeps failing while
        others are answered, gives `Generation(error=...)`. Raises EndpointAuthError when a key is refused and
        EngineError when no endpoint answers for `retry.outage_s`; every other call of the same `run` is then
        cancelled."""
        if any(request.continuations or request.pieces for request in requests):
            raise ConfigError("The likelihood of a text needs engine vllm: an endpoint tells none. Use reading=letter.")
        tasks = [asyncio.create_task(self._answer(request)) for request in requests]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def stats(self) -> dict[str, float]:
        """Counters since start: requests, of these generations and error_rows, retries, and
        `backend:ENDPOINT SYSTEM_FINGERPRINT`, calls that each version of a backend answered."""
        requests = self._counts["generations"] + self._counts["error_rows"]
        return {name: float(n) for name, n in {**self._counts, "requests": requests}.items()}

    def trouble(self) -> str:
        """What failed last at each endpoint; "" where nothing did."""
        return last_failures(self._endpoints) if any(one.last_failure for one in self._endpoints) else ""

    async def close(self) -> None:
        """Close the connections; waiting requests get EngineError."""
        self._dispatcher.fail_waiters(lambda: EngineError("The openai engine was closed while requests waited."))
        self._dispatcher.close()
        for endpoint in self._endpoints:
            await endpoint.close()
        self._log_filter.remove()

    def _connect(self) -> None:
        keys = [os.environ.get(e.api_key_env, "").strip() for e in self._config.endpoints]
        for endpoint, key in zip(self._config.endpoints, keys, strict=True):
            if not (key.isascii() and key.isprintable()):
                raise EndpointAuthError(
                    f"The environment variable {endpoint.api_key_env} holds characters that no HTTP header can carry "
                    "(its value is not shown). Expected a key of printable ASCII characters, without line breaks."
                )
        redactor = Redactor(keys)
        self._endpoints = [
            Endpoint(f"{number}:{config.url}", config, self._config, key, redactor)
            for number, (config, key) in enumerate(zip(self._config.endpoints, keys, strict=True))
        ]
        self._log_filter = RedactingFilter(redactor)
        self._log_filter.install()
        self._by_slot = {endpoint.slot: endpoint for endpoint in self._endpoints}
        self._dispatcher = Dispatcher([endpoint.slot for endpoint in self._endpoints], self._clock)
        self._fatal = None
        self._counts = Counter(generations=0, error_rows=0, retries=0)

    def _leave_out(self, found: Sequence[Failure | None]) -> None:
        """Of the endpoints those that do not answer (found: what each check found). Raises as `start` does."""
        pairs = zip(self._endpoints, found, strict=True)
        failed = [(endpoint, failure) for endpoint, failure in pairs if failure is not None]
        for endpoint, failure in failed:
            if failure.kind is Kind.AUTH:
                raise EndpointAuthError(endpoint.refused_key(failure))
            if failure.kind in FINAL:
                raise EngineLoadError(f"Endpoint {endpoint.shown} cannot serve: {failure.message}")
        if len(failed) == len(self._endpoints):
            why = last_failures(self._endpoints)
            wanted = "an OpenAI-compatible server, such as one started with: vllm serve <model> --port 8000."
            if "CERTIFICATE_VERIFY_FAILED" in why:
                wanted = "a certificate that is trusted here. For one of your own: export SSL_CERT_FILE=/path/ca.pem."
            raise EngineLoadError(f"No endpoint answered. {why} Expected {wanted}")
        for endpoint, failure in failed:
            endpoint.slot.take_out(self._clock())
            logger.warning("endpoint %s does not answer and is left out for now: %s", endpoint.id, failure.message)

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
                        f"Endpoint {endpoint.shown} gives replies of another model: {result.message}. Nothing was "
                        "recorded. If it is the same model under another name, say so with reply_model in the "
                        "endpoint's configuration."
                    )
                if await self._others_are_answered(result.kind, started, failed_before):
                    return self._error_row(endpoint, f"{result.message} (attempt {attempts_used} of {attempts_used})")
            quiet_s = self._clock() - max(self._last_answer, started)
            other = self._dispatcher.other_in_service(lease.slot)
            # One slow failure is no outage while another endpoint is in service and was not asked.
            asked = not other or failures >= len(self._endpoints)
            if quiet_s > self._config.retry.outage_s and asked:
                self._dispatcher.fail_waiters(self._outage)
                raise self._outage()
            avoid = lease.slot
            self._counts["retries"] += 1
            if other:
                delay = min(delay, backoff_seconds(self._config.retry, 1, self._rng))
            await asyncio.sleep(delay)

    async def _ask(self, request: Request, avoid: Slot | None = None) -> tuple[Lease, Endpoint, Generation | Failure]:
        """One attempt. The lease is still to be released, by noting the result."""
        if self._fatal is not None:
            raise EndpointAuthError(self._fatal)
        tokens = tokens_of(request.system + request.prompt, request.max_tokens)
        lease = await self._dispatcher.acquire(request.affinity, avoid, tokens)
        endpoint = self._by_slot[lease.slot]
        try:
            found = await endpoint.attempt(request)
            if isinstance(found, Generation) and (used := found.prompt_tokens + found.completion_tokens):
                lease.slot.pace.used(tokens, used)
            return lease, endpoint, found
        except BaseException:
            self._dispatcher.abandoned(lease)
            raise

    async def _others_are_answered(self, kind: Kind, started: float, failed_before: float) -> bool:
        """Whether a request that keeps failing is the odd one out. A maintenance page comes at once and to everybody:
        there it counts what is answered now, after the last failure."""
        if kind not in BAD_REPLY:
            return self._last_answer > started
        if self._last_answer > failed_before:
            return True
        # Something else is asked: that tells a row's fault from the endpoint's where nobody else is there to be
        # answered, as for the last row of a run. A refusal is an answer.
        lease, endpoint, result = await self._ask(HELLO)
        if isinstance(result, Generation):
            self._note_alive(lease, endpoint)
            return True
        self._note_failure(lease, endpoint, result, 0.0)
        return result.kind is Kind.ROW

    def _note_alive(self, lease: Lease, endpoint: Endpoint, pause_s: float = 0.0) -> None:
        if self._dispatcher.answered(lease, pause_s):
            logger.warning("endpoint %s answers again and is back in", endpoint.id)

    def _note_failure(self, lease: Lease, endpoint: Endpoint, failure: Failure, delay_s: float) -> None:
        """Tell the dispatcher, and raise for the kinds that end the run."""
        endpoint.last_failure = failure.message
        logger.debug("endpoint %s: %s: %s", endpoint.id, failure.kind, failure.message)
        if failure.kind is Kind.RATE_LIMIT:
            self._note_alive(lease, endpoint, pause_s=delay_s)
        elif failure.kind in ALIVE:
            self._last_answer = self._clock()
            self._note_alive(lease, endpoint)
        elif self._dispatcher.failed(lease, pause_s=delay_s if failure.retry_after_s else 0.0):
            cooldown = self._config.circuit.cooldown_s
            logger.warning("endpoint %s is out, next try in %g s: %s", endpoint.id, cooldown, failure.message)
        if failure.kind is Kind.AUTH:
            self._fatal = fatal = endpoint.refused_key(failure)
            self._dispatcher.fail_waiters(lambda: EndpointAuthError(fatal))
            raise EndpointAuthError(fatal)
        if failure.kind is Kind.QUOTA:
            raise EngineError(
                f"Endpoint {endpoint.shown} has no quota left: {failure.message} Nothing was recorded for the requests "
                "under way; add quota and start the same command again to go on."
            )

    def _count(self, generation: Generation) -> None:
        self._counts["generations"] += 1
        if generation.backend:
            key = f"{BACKEND}{generation.engine_id} {generation.backend}"
            known = key in self._counts or sum(k.startswith(BACKEND) for k in self._counts) < _BACKENDS
            self._counts[key if known else f"{BACKEND}{generation.engine_id} others"] += 1

    def _error_row(self, endpoint: Endpoint, message: str) -> Generation:
        self._counts["error_rows"] += 1
        return Generation(finish_reason=FinishReason.ERROR, engine_id=endpoint.id, error=message)

    def _outage(self) -> EngineError:
        return EngineError(
            f"No endpoint has answered for {self._config.retry.outage_s:g} s (retry.outage_s). "
            f"{last_failures(self._endpoints)} Nothing was recorded for the requests under way; start the same "
            "command again to go on where it stopped."
        )


WITHIN_S = 2.0


def probe(models: Sequence[ModelConfig], letters: Sequence[bool]) -> list[AuditError | None]:
    """Of each model with engine openai, why it cannot serve; None where it can, or where waiting may help. letters:
    whether the log-probabilities of letters are needed of each."""

    async def all_of_them() -> list[BaseException | None]:
        engines = map(OpenAIEngine, models)
        asked = (one.probe(WITHIN_S, letters=letter) for one, letter in zip(engines, letters, strict=True))
        return await asyncio.gather(*asked, return_exceptions=True)

    with ThreadPoolExecutor(1) as thread:  # this thread may have an event loop of its own, as in a notebook
        found = thread.submit(asyncio.run, all_of_them()).result()
    for error in found:
        if error is not None and not isinstance(error, AuditError):
            raise error
    return [error if isinstance(error, AuditError) else None for error in found]
