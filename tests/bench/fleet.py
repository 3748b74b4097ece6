"""`python -m bench.fleet`: replicas in simulated time, some slow, some dying, under the program's
own routing.

The policy is the program's: `Balancer`, one of each stage, and the chunks in flight of `pipeline`.
What is simulated is time: a replica answers `SLOTS` requests at once, each after a random latency,
and the rest wait there. So the figures are of the routing alone and the same on any machine, busy
or not; what Ray costs is in `bench.orchestration`.

Utilisation is the ideal time, all of the work spread over whatever the living replicas can do, over
the time it took. Single calls are not spread, so no routing reaches the ideal: `one_queue` is what
a single queue would that gives the next call to whichever slot is free, with no stages, no affinity
and nothing waiting at a replica. The same fleet as processes on Ray was measured once
(docs/findings/measured.md)."""

from __future__ import annotations

import argparse
import heapq
import itertools
import json
import math
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from audit.config.base import ClusterConfig
from audit.runtime.call import Balancer
from audit.runtime.pipeline import tasks_per_chunk

REPLICAS, SLOW, DYING = 64, 2, 3
SLOTS = 32  # requests that a replica answers at once (vLLM's max_num_seqs, or what its cache holds)
LATENCY_S, JITTER = 4.0, 0.5  # lognormal: the median, and sigma of the logarithm
SLOWER = 3.0  # times
# Of each part of a question, to prepare and to answer: direct, three clean replicates, noisy
# (r=1..9, nested).
CALLS = ((0, 1), (1, 1), (1, 1), (1, 1), (9, 9))
TARGET = 0.95


@dataclass
class Replica:
    """Its queue, what it is answering, and how long that takes it."""

    slower: float
    dies_s: float = math.inf
    waiting: deque[Call] = field(default_factory=deque)
    answering: dict[Call, None] = field(default_factory=dict)  # in their order, unlike a set's


@dataclass(eq=False)
class Call:
    question: int
    work_s: float
    chunk: int
    stage: int
    replica: int = -1


@dataclass
class Share:
    """Of one chunk's requests, those that one replica was given."""

    sent_s: float
    requests: int = 0
    left: int = 0


class Fleet:
    """A run of `questions` in simulated time."""

    def __init__(self, questions: int, seed: int, chunks_in_flight: int) -> None:
        rng = random.Random(seed)
        self.in_flight = chunks_in_flight
        unlike = rng.sample(range(REPLICAS), SLOW + DYING)
        work = [
            rng.lognormvariate(math.log(LATENCY_S), JITTER)
            for _ in range(questions * sum(map(sum, CALLS)))
        ]
        self.work_s, draw = sum(work), iter(work)
        usual_s = self.work_s / (REPLICAS * SLOTS)
        self.replicas = [
            Replica(
                SLOWER if i in unlike[:SLOW] else 1.0,
                rng.uniform(0.1, 0.9) * usual_s if i in unlike[SLOW:] else math.inf,
            )
            for i in range(REPLICAS)
        ]
        tasks = [(q, part) for q in range(questions) for part in CALLS]
        size = tasks_per_chunk(len(tasks), 13 / 5, None, "vllm")
        chunks = [tasks[i : i + size] for i in range(0, len(tasks), size)]
        self.calls = [
            [
                [Call(q, next(draw), k, s) for q, part in chunk for _ in range(part[s])]
                for s in (0, 1)
            ]
            for k, chunk in enumerate(chunks)
        ]
        self.left = [[len(calls) for calls in chunk] for chunk in self.calls]
        self.balancers = [Balancer(REPLICAS), Balancer(REPLICAS)]
        self.queues: list[deque[int]] = [deque(range(len(chunks))), deque()]
        self.active = [0, 0]
        self.now, self.events = 0.0, list[tuple[float, int, int, Call | None]]()
        self.tie = itertools.count()
        self.served: dict[int, dict[int, int]] = {}
        self.again = 0
        self.shares: dict[tuple[int, int, int], Share] = {}

    def run(self) -> dict[str, Any]:
        for i, replica in enumerate(self.replicas):
            if replica.dies_s < math.inf:
                heapq.heappush(self.events, (replica.dies_s, next(self.tie), i, None))
        self._admit()
        last = 0.0
        while self.events:
            self.now, _, i, call = heapq.heappop(self.events)
            if call is None:
                self._die(i)
            elif call in self.replicas[i].answering and call.replica == i:
                self._answered(i, call)
                last = self.now
        assert not any(any(left) for left in self.left)
        home = sum(max(by.values()) for by in self.served.values())
        all_ = sum(sum(by.values()) for by in self.served.values())
        deaths = [r.dies_s for r in self.replicas if r.dies_s < math.inf]
        ideal = ideal_s(self.work_s, [r.slower for r in self.replicas], deaths)
        return {
            "seconds": round(last, 1),
            "ideal_s": round(ideal, 1),
            "utilisation": round(ideal / last, 3),
            "one_queue": round(ideal / self._one_queue_s(), 3),
            "with_their_replica": round(home / all_, 3),
            "calls": all_,
            "asked_again": self.again,
        }

    def _admit(self) -> None:
        """Chunks into the stages, each of which holds so many."""
        for stage in (0, 1):
            while self.queues[stage] and self.active[stage] < self.in_flight:
                chunk = self.queues[stage].popleft()
                self.active[stage] += 1
                for call in self.calls[chunk][stage]:
                    self._send(call)

    def _send(self, call: Call) -> None:
        call.replica = self.balancers[call.stage].take(f"q{call.question}")
        self.replicas[call.replica].waiting.append(call)
        share = self.shares.setdefault((call.chunk, call.stage, call.replica), Share(self.now))
        share.requests += 1
        share.left += 1
        self._begin(call.replica)

    def _begin(self, i: int) -> None:
        replica = self.replicas[i]
        while replica.waiting and len(replica.answering) < SLOTS:
            call = replica.waiting.popleft()
            replica.answering[call] = None
            heapq.heappush(
                self.events, (self.now + call.work_s * replica.slower, next(self.tie), i, call)
            )

    def _answered(self, i: int, call: Call) -> None:
        del self.replicas[i].answering[call]
        by = self.served.setdefault(call.question, {})
        by[i] = by.get(i, 0) + 1
        left = self.left[call.chunk]
        left[call.stage] -= 1
        share = self.shares[call.chunk, call.stage, i]
        share.left -= 1
        if share.left == 0:  # as `EngineCaller` hears of it
            self.balancers[call.stage].give_back(i, share.requests, self.now - share.sent_s)
            del self.shares[call.chunk, call.stage, i]
        if left[call.stage] == 0:
            self.active[call.stage] -= 1
            if call.stage == 0:
                self.queues[1].append(call.chunk)
            self._admit()
        self._begin(i)

    def _die(self, i: int) -> None:
        replica = self.replicas[i]
        calls = [*replica.answering, *replica.waiting]
        replica.answering.clear()
        replica.waiting.clear()
        for balancer in self.balancers:
            balancer.lost(i)
        for call in calls:
            self.again += 1
            self.shares.pop((call.chunk, call.stage, i), None)
            self._send(call)

    def _one_queue_s(self) -> float:
        """When the last call would be answered, were all in one queue."""
        free = [(0.0, i) for i in range(REPLICAS) for _ in range(SLOTS)]
        last = 0.0
        for call in (call for stage in (0, 1) for chunk in self.calls for call in chunk[stage]):
            answered = math.inf
            while answered == math.inf:  # else the replica dies first, and its slot is gone
                at, i = heapq.heappop(free)
                answered = at + call.work_s * self.replicas[i].slower
                if answered > self.replicas[i].dies_s:
                    answered = math.inf
            heapq.heappush(free, (answered, i))
            last = max(last, answered)
        return last


def ideal_s(work_s: float, slower: Sequence[float], deaths_s: Sequence[float]) -> float:
    """When all of the work would be done, were it spread at any moment over all that live. slower:
    of each replica. deaths_s: when some of those that are not slow die."""
    rate, done, at = sum(SLOTS / times for times in slower), 0.0, 0.0
    for death in sorted(deaths_s):
        if done + rate * (death - at) >= work_s:
            break
        done, at, rate = done + rate * (death - at), death, rate - SLOTS
    return at + (work_s - done) / rate


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.fleet", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--questions", type=int, default=8000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--chunks-in-flight", type=int, default=max(ClusterConfig().chunks_in_flight, REPLICAS)
    )
    options = parser.parse_args()
    figures = Fleet(options.questions, options.seed, options.chunks_in_flight).run()
    print(
        json.dumps(
            {**figures, "target": TARGET, "reached": figures["utilisation"] >= TARGET}, indent=1
        )
    )


if __name__ == "__main__":
    main()
