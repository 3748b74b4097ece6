"""What the routers and the worker are sent (song2026, section 4.3). Pure: a protocol and records in, text out.

The worker's prompt in a router arm is made from the messages, the number of options and the reading; there is no
question among its arguments, so it cannot hold what the messages do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from audit.audits import Work
from audit.prompting.prompts import answering_prompt, direct_prompt, question_text
from audit.prompting.templates import OF_READING, fill
from audit.prompting.thinking import strip_thinking
from audit.records import Generation, GenerationRequest, Part, Presentation, Protocol, Question, Reading
from audit.sweep.design import Arm, Draws, n_messages

ROUTER = "router"
NOT_STORED = "the earlier run has no such message: nothing was asked"


def router_requests(work: Work, question: Question, part: Part) -> list[GenerationRequest]:
    """The calls that write the messages of a router set; none for the direct arm."""
    if part.arm == Arm.DIRECT or work.own is not None:
        return []
    prompt = router_prompt(work.protocol, question, part.arm, work.reading)
    # Under nested draws message j of a replicate is the same for every r, so its seed does not know r.
    level = None if work.design.kind == Draws.NESTED else n_messages(part)
    return [
        GenerationRequest(
            prompt=prompt,
            affinity=question.id,
            label=f"{part.arm}/{ROUTER}",
            seed=work.seed_of(question, part.arm, level, part.replicate, ROUTER, j),
            max_tokens=work.preparing.max_tokens,
            temperature=work.preparing.temperature,
            top_p=work.preparing.top_p,
        )
        for j in range(n_messages(part))
    ]


def present(work: Work, question: Question, part: Part, messages: Sequence[Generation]) -> list[Presentation]:
    """What the worker sees at each r of a router set: its first r messages. One that failed leaves nothing to ask.

    work.own: where the messages of an earlier run are, that are answered in place of new ones.
    """
    if work.own is not None and part.arm != Arm.DIRECT:
        from audit.sweep.replay import stored  # it needs Arrow

        messages = stored(work.own, question, part)
        messages = [*messages, *[Generation(error=NOT_STORED)] * (n_messages(part) - len(messages))]
    return [_present(work, question, part, routers, messages[:routers]) for routers in part.levels]


def _present(work: Work, question: Question, part: Part, routers: int, used: Sequence[Generation]) -> Presentation:
    if part.arm == Arm.DIRECT:
        prompt = direct_prompt(work.protocol, question, work.reading)
    else:
        prompt = worker_prompt(work.protocol, [m.text for m in used], len(question.options), work.reading)
    # Nested draws: r pays for the messages that the next smaller r did not already have.
    paid = used[max((r for r in part.levels if r < routers), default=0) :] if work.own is None else ()
    own: dict[str, Any] = {
        "draws": work.design.kind,
        "router_messages": [m.text for m in used],
        "router_finish_reasons": [m.finish_reason for m in used],
        "router_engine_ids": [m.engine_id for m in used],
        "router_calls": len(paid),
        "router_prompt_tokens": sum(m.prompt_tokens for m in paid),
        "router_cached_tokens": sum(m.cached_tokens for m in paid),
        "router_completion_tokens": sum(m.completion_tokens for m in paid),
    }
    failed = next((m.error for m in used if m.error), None)
    return Presentation(prompt, question.options, question.gold, own, failed)


def router_prompt(protocol: Protocol, question: Question, arm: str, reading: Reading = Reading.LETTER) -> str:
    """What every router of an arm is sent; routers of one question differ in their seeds only."""
    if arm == Arm.DIRECT:
        raise ValueError("The direct arm has no router. Expected forward_full or noisy_rewrite.")
    name = f"router_{arm}_{reading}" if reading in OF_READING else f"router_{arm}"
    return fill(protocol.templates[name], {"question": question_text(protocol, question)})


def aggregate(protocol: Protocol, messages: Sequence[str]) -> str:
    """The messages in order, numbered from 1, as the worker sees them; their number is not stated.

    A router's thinking is removed: it is not part of what a model says, and it tends to solve the question.
    """
    return "\n\n".join(
        fill(protocol.templates["message"], {"index": str(i), "text": strip_thinking(message).text})
        for i, message in enumerate(messages, start=1)
    )


def worker_prompt(protocol: Protocol, messages: Sequence[str], n_options: int, reading: Reading) -> str:
    """What the worker is sent in a router arm.

    The prompts for the first r and r+1 of the same messages are equal up to the end of message r, as far as the
    template puts its instructions before `{messages}`; an engine's prefix cache then serves that part.
    """
    if not messages:
        raise ValueError("A worker prompt needs at least one router message; the direct arm uses direct_prompt.")
    return answering_prompt(protocol, "worker", "messages", aggregate(protocol, messages), n_options, reading)
