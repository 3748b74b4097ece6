"""Requests to the replicas of one model, and their replies in order."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import ray

from audit.errors import EngineDiedError, EngineError
from audit.records import Generation, GenerationRequest
from audit.runtime.balance import Balancer

_AGAIN_S = 1.0  # before what an unreachable replica was asked is asked again
_UNREACHABLE_S = 15.0  # that a replica is passed over for; Ray takes about this long to give a node up


@dataclass(frozen=True, slots=True)
class Share:
    """The requests of one call that one replica was given, by their indices."""

    replica: int
    indices: list[int]
    sent_s: float


class EngineCaller:
    """Sends requests to the replicas of one model and puts the replies back in order.

    A replica that died for good is asked no more, and what it was asked goes to the others, while there are any. One
    that cannot be reached, or that Ray starts again, is passed over for a while; a last one is waited for.
    """

    def __init__(self, engines: Sequence[Any]) -> None:
        self._engines = engines
        self._balancer = Balancer(len(engines))

    def __call__(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        replies: list[Generation | None] = [None] * len(requests)
        waiting = self._send(requests, range(len(requests)))
        try:
            while waiting:
                done, _ = ray.wait(list(waiting), num_returns=1)
                share = waiting.pop(done[0])
                try:
                    found = ray.get(done[0])
                except ray.exceptions.ActorUnavailableError:
                    # Not dead, whatever it was asked: Ray starts it again, or says that it died. Its own retries
                    # (max_task_retries) may be spent by then on a connection that was refused.
                    self._balancer.give_back(share.replica, len(share.indices))
                    self._balancer.unreachable(share.replica, _UNREACHABLE_S)
                    time.sleep(_AGAIN_S)
                    waiting |= self._send(requests, share.indices)
                    continue
                except (ray.exceptions.RayActorError, EngineDiedError) as error:
                    self._balancer.give_back(share.replica, len(share.indices))
                    if not self._balancer.lost(share.replica):
                        if isinstance(error, EngineDiedError):
                            raise
                        raise EngineDiedError(
                            "An engine's process died and was not started again (max_restarts of the model's "
                            "configuration). Type the same command again: it goes on where this one stopped. "
                            f"{str(error).splitlines()[0]}"
                        ) from None  # the original cannot travel back to the driver
                    waiting |= self._send(requests, share.indices)
                    continue
                except BaseException:
                    self._balancer.give_back(share.replica, len(share.indices))
                    raise
                self._balancer.give_back(share.replica, len(share.indices), time.monotonic() - share.sent_s)
                for i, reply in zip(share.indices, found, strict=True):
                    replies[i] = reply
        except ray.exceptions.RaySystemError as error:
            # Ray Data would try this again for ever; a reply that cannot be read will not be readable then.
            raise EngineError(f"A reply of the engine could not be read: {error}") from error
        finally:
            for share in waiting.values():
                self._balancer.give_back(share.replica, len(share.indices))
        return [reply for reply in replies if reply is not None]

    def _send(self, requests: Sequence[GenerationRequest], indices: Iterable[int]) -> dict[Any, Share]:
        shares: dict[int, list[int]] = {}
        for i in indices:
            shares.setdefault(self._balancer.take(requests[i].affinity, 1), []).append(i)
        return {
            self._engines[replica].run.remote([requests[i] for i in own]): Share(replica, own, time.monotonic())
            for replica, own in shares.items()
        }
