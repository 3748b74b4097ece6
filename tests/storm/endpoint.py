"""`PYTHONPATH=tests python -m storm.endpoint`: an endpoint that misbehaves at a fifth of the calls.

Every good reply follows from the prompt, and every bad one says so in its text: an answer that is
lost, in another's place, or not the model's own is seen at once."""

import argparse
import asyncio
import hashlib
import json
import os
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from faulty_server import Call, FaultyServer, Reply, completion, error

KEY_ENV, KEY = "STORM_KEY", "sk-storm-0123456789-not-to-be-written"
BAD = "NOT AN ANSWER"  # in the text of every reply that may not be taken
SHARE = 0.2


def answer_to(prompt: str) -> str:
    """A router's message where one is asked for, else a letter: always the same to the same
    prompt."""
    digest = hashlib.sha256(prompt.encode()).hexdigest()
    return f"message {digest[:12]}" if "relay" in prompt else "ABCD"[int(digest, 16) % 4]


def _faults() -> dict[str, Callable[[Call], Reply]]:
    body: dict[str, Any] = completion(BAD)
    return {
        "429": lambda call: error(429, f"{BAD}: slow down", retry_after_ms="20"),
        "429 without end": lambda call: error(429, BAD),
        "500": lambda call: error(500, BAD),
        "503": lambda call: error(503, f"{BAD} {KEY}"),
        "hang": lambda call: Reply(fault="hang"),
        "slow drip": lambda call: Reply(body=body, fault="drip"),
        "broken off": lambda call: Reply(body=body, fault="truncate"),
        "connection reset": lambda call: Reply(fault="reset"),
        "garbage": lambda call: Reply(
            body=f"<html>{BAD} {call.headers.get('authorization')}</html>"
        ),
        "half a JSON": lambda call: Reply(
            body=json.dumps(body)[:-30], headers={"content-type": "application/json"}
        ),
        "no choices": lambda call: Reply(body={**body, "choices": []}),
        "an error with status 200": lambda call: Reply(
            body={**body, "error": {"message": f"{BAD} {KEY}"}}
        ),
        "another model": lambda call: Reply(body={**body, "model": "m-mini"}),
    }


class Hostile:
    """`behave` of a FaultyServer: SHARE of the calls get a fault that the seed draws. Counts what
    it did. changed_after: answers of the model's first version."""

    def __init__(self, seed: int, share: float = SHARE, changed_after: int = 40) -> None:
        self._rng, self._share, self._faults, self._changed_after = (
            random.Random(seed),
            share,
            _faults(),
            changed_after,
        )
        self.did: Counter[str] = Counter()

    def __call__(self, call: Call) -> Reply:
        if self._rng.random() >= self._share:
            self.did["answered"] += 1
            version = {
                "system_fingerprint": "fp_1"
                if self.did["answered"] <= self._changed_after
                else "fp_2"
            }
            return Reply(
                body=completion(answer_to(call.prompt)) | version,
                delay_s=self._rng.uniform(0, 0.02),
            )
        name = self._rng.choice(list(self._faults))
        self.did[name] += 1
        return self._faults[name](call)


@contextmanager
def serving(behave: Callable[[Call], Reply]) -> Iterator[FaultyServer]:
    """A server on a thread of its own, for an engine in another process."""
    server, loop = FaultyServer(behave), asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(server.up(), loop).result(30)
    try:
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(server.down(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)


async def storm(calls: int, seed: int, timeout_s: float) -> dict[str, Any]:
    """Ask so many questions of the engine alone, and count what came back."""
    from audit.core.records import GenerationRequest
    from audit.engines.config import ModelConfig
    from audit.engines.openai_config import CircuitConfig, EndpointConfig, RetryConfig
    from audit.engines.openai_engine import OpenAIEngine

    hostile = Hostile(seed)
    async with FaultyServer(hostile) as server:
        endpoint = EndpointConfig(
            server.url, "m", concurrency=32, api_key_env=KEY_ENV, timeout_s=timeout_s
        )
        retry = RetryConfig(base_delay_s=0.02, max_delay_s=0.2, outage_s=60)
        model = ModelConfig(
            endpoints=[endpoint], retry=retry, circuit=CircuitConfig(cooldown_s=0.2)
        )
        engine = OpenAIEngine(model, random.Random(seed))
        await engine.start()
        requests = [
            GenerationRequest(
                f"question {i}", affinity=str(i), label="direct/0", seed=i, max_tokens=8
            )
            for i in range(calls)
        ]
        begun = time.monotonic()
        got = await engine.run(requests)
        seconds = time.monotonic() - begun
        await engine.close()
    failed = sum(reply.error is not None for reply in got)
    wrong = sum(
        reply.error is None and reply.text != answer_to(q.prompt)
        for q, reply in zip(requests, got, strict=True)
    )
    leaks = sum(KEY in repr(reply) for reply in got)
    return {
        "seed": seed,
        "questions": calls,
        "calls": hostile.did.total(),
        "faults": {name: n for name, n in hostile.did.items() if name != "answered"},
        "answered": calls - failed,
        "error_rows": failed,
        "lost": calls - len(got),
        "silently_wrong": wrong,
        "replies_with_the_key": leaks,
        "seconds": round(seconds, 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m storm.endpoint", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--calls", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--timeout-s",
        type=float,
        default=2.0,
        help="of an attempt: what hangs is given up after it",
    )
    options = parser.parse_args()
    os.environ[KEY_ENV] = KEY
    outcome = asyncio.run(storm(options.calls, options.seed, options.timeout_s))
    print(json.dumps(outcome, indent=1))
    return int(
        bool(outcome["lost"] or outcome["silently_wrong"] or outcome["replies_with_the_key"])
    )


if __name__ == "__main__":
    sys.exit(main())
