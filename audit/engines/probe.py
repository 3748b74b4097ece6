"""Endpoints are asked whether they serve, in two seconds, before Ray starts."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from audit.engines.config import ModelConfig, openai_config
from audit.engines.openai_engine import OpenAIEngine
from audit.errors import AuditError

WITHIN_S = 2.0


def probe(models: Sequence[ModelConfig], letters: Sequence[bool]) -> list[AuditError | None]:
    """Of each model with engine openai, why it cannot serve; None where it can, or where waiting may help.

    letters: whether the log-probabilities of letters are needed of each.
    """

    async def all_of_them() -> list[BaseException | None]:
        engines = (OpenAIEngine(openai_config(model)) for model in models)
        asked = (one.probe(WITHIN_S, letters=letter) for one, letter in zip(engines, letters, strict=True))
        return await asyncio.gather(*asked, return_exceptions=True)

    with ThreadPoolExecutor(1) as thread:  # this thread may have an event loop of its own, as in a notebook
        found = thread.submit(asyncio.run, all_of_them()).result()
    for error in found:
        if error is not None and not isinstance(error, AuditError):
            raise error
    return [error if isinstance(error, AuditError) else None for error in found]
