"""Check endpoints before a run. The full client is loaded only if an endpoint's list of models is
not enough to decide.
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from audit.core.errors import AuditError
from audit.engines.config import ModelConfig
from audit.engines.openai_contact import LIST_WITHIN_S, FirstContact, refusal

WITHIN_S = 2.0  # time limit for each check by the client; a slower endpoint may still serve later


def probe(
    models: Sequence[ModelConfig], letters: Sequence[bool], list_within_s: float = LIST_WITHIN_S
) -> list[AuditError | None]:
    """Check before a run whether endpoints can serve the models with engine openai.

    Parameters
    ----------
    models : sequence of ModelConfig
        The models with engine openai.
    letters : sequence of bool
        For each model, whether it needs log-probabilities of letters.
    list_within_s : float
        The time limit for the first byte of a list of models, in seconds.

    Returns
    -------
    list of AuditError or None
        For each model, the error; None if the model can be served, or if the failure may pass by
        itself.
    """
    contacts = []
    for model in models:
        contacts.append([FirstContact(endpoint, list_within_s) for endpoint in model.endpoints])
    errors: list[AuditError | None] = []
    unsettled = []
    for index, (of_model, letter) in enumerate(zip(contacts, letters, strict=True)):
        findings = [contact.finding() for contact in of_model]
        settled = [finding for finding in findings if finding is not None]
        errors.append(refusal(settled) if len(settled) == len(findings) else None)
        if errors[-1] is None and (letter or None in findings):
            unsettled.append(index)
    if unsettled:
        checked = _check([models[k] for k in unsettled], [letters[k] for k in unsettled])
        for index, error in zip(unsettled, checked, strict=True):
            errors[index] = error
    return errors


def _check(models: Sequence[ModelConfig], letters: Sequence[bool]) -> list[AuditError | None]:
    """Check models with the full client, which is also used during the run."""
    from audit.engines.openai_engine import OpenAIEngine

    async def probe_all() -> list[BaseException | None]:
        engines = zip(map(OpenAIEngine, models), letters, strict=True)
        probes = (engine.probe(WITHIN_S, letters=letter) for engine, letter in engines)
        return await asyncio.gather(*probes, return_exceptions=True)

    # The check runs in a new thread, since the caller's thread may already run an event loop, as in
    # a notebook.
    with ThreadPoolExecutor(1) as thread:
        errors = thread.submit(asyncio.run, probe_all()).result()
    audit_errors: list[AuditError | None] = []
    for error in errors:
        if error is not None and not isinstance(error, AuditError):
            raise error
        audit_errors.append(error)
    return audit_errors
