"""Build the prompts of the routers and of the worker in a sweep (song2026, section 4.3).

In a router arm, the worker's prompt is made from the messages, the number of options and the
reading only. The question is not an argument of `worker_prompt`, so the worker cannot see the
question.
"""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from audit.config.audits import Audit, Roles, Work
from audit.core.prompting import (
    OF_READING,
    answering_prompt,
    direct_prompt,
    fill,
    question_text,
    strip_thinking,
)
from audit.core.records import (
    Generation,
    GenerationRequest,
    Item,
    Part,
    Presentation,
    Protocol,
    Reading,
)
from audit.shards.schema import row_schema
from audit.sweep.config import TEMPLATES, design_of, worker_of
from audit.sweep.design import DELETED, WITHOUT_ROUTER, Aggregator, Arm, Draws, n_messages
from audit.sweep.stored_messages import stored

ROUTER = "router"
NOT_STORED = "the earlier run has no such message, so no question was sent"


@dataclass(frozen=True)
class SweepState:
    """Hold the state of a sweep. `Work.state` refers to an object of this class.

    Attributes
    ----------
    aggregator : Aggregator
        How the worker reads several messages (joined, summarised, or by vote).
    messages : str or None
        Path of an earlier run whose stored messages are used. None: new messages are generated.
    """

    aggregator: Aggregator = Aggregator.CONCATENATE
    messages: str | None = None


def router_requests(
    work: Work, item: Item, part: Part, replies: Sequence[Generation] = ()
) -> list[GenerationRequest]:
    """Return the requests to the routers of one router set.

    Parameters
    ----------
    work : Work
        The run context.
    item : Item
        The question.
    part : Part
        The router set.
    replies : sequence of Generation
        Replies to the first requests; empty on the first call.

    Returns
    -------
    list of GenerationRequest
        On the first call, the requests for messages. On the second call, the requests for one
        summary at each r. The list is empty for arms without a router, and if the messages of an
        earlier run are used.
    """
    wanted = n_messages(part)
    if part.arm in WITHOUT_ROUTER or work.state.messages is not None:
        return []
    if not replies:
        prompt = router_prompt(work.protocol, item, part.arm, work.reading)
        # With nested draws, message j of a replicate is the same for every r, so its seed does not
        # depend on r.
        level = None if work.design.kind == Draws.NESTED else wanted
        requests = []
        for j in range(wanted):
            requests.append(_request(work, item, part, prompt, (level, part.replicate, ROUTER, j)))
        return requests
    if work.state.aggregator != Aggregator.SUMMARY or len(replies) > wanted:
        return []
    template, texts = work.protocol.templates["router_summary"], [m.text for m in replies]
    requests = []
    for r in part.levels:
        prompt = fill(template, {"messages": aggregate(work.protocol, texts[:r])})
        key = (r, part.replicate, Aggregator.SUMMARY)
        requests.append(_request(work, item, part, prompt, key))
    return requests


def _request(
    work: Work, item: Item, part: Part, prompt: str, key: tuple[Any, ...]
) -> GenerationRequest:
    """Return a request to the router's model. Its seed is computed from the question, the arm and
    the key."""
    seed = work.seed_of(item, part.arm, *key)
    sampling, role = work.preparing, f"{part.arm}/{ROUTER}"
    return GenerationRequest(
        prompt, item.id, role, seed, sampling.max_tokens, sampling.temperature, sampling.top_p
    )


def present(
    work: Work, item: Item, part: Part, messages: Sequence[Generation]
) -> list[Presentation]:
    """Return the presentation that the worker answers at each r of a router set.

    Parameters
    ----------
    work : Work
        The run context.
    item : Item
        The question.
    part : Part
        The router set.
    messages : sequence of Generation
        The router messages, then the summaries if the aggregator makes them.

    Returns
    -------
    list of Presentation
        One presentation for each r. The presentation at r contains the first r messages, in the
        form that `Aggregator` defines. It is marked as failed if one of its messages or its summary
        failed.
    """
    earlier = work.state.messages
    if earlier is not None and part.arm not in WITHOUT_ROUTER:
        messages = stored(earlier, item, part)
        messages = [*messages, *[Generation(error=NOT_STORED)] * (n_messages(part) - len(messages))]
    summaries = messages[n_messages(part) :]
    presentations = []
    for k, r in enumerate(part.levels):
        presentations.append(_present(work, item, part, r, [*messages[:r], *summaries[k : k + 1]]))
    return presentations


def _present(
    work: Work, item: Item, part: Part, routers: int, used: Sequence[Generation]
) -> Presentation:
    """Return the presentation at one r.

    `used` holds the messages. If the aggregator makes a summary, the summary is the last entry.
    """
    summary_or_messages = used[routers:] or used
    prompts = _prompts(work, item, part, routers, [m.text for m in summary_or_messages])
    voting = work.state.aggregator == Aggregator.VOTE and part.arm not in WITHOUT_ROUTER
    # With nested draws, the messages of a smaller r are used again at this r. Their cost is counted
    # at the smaller r, so this r counts only the cost of the additional messages.
    previous_r = max((r for r in part.levels if r < routers), default=0)
    charged = used[previous_r:] if work.state.messages is None else ()
    columns: dict[str, Any] = {
        "draws": work.design.kind,
        "router_messages": [],
        "router_finish_reasons": [],
        "router_engine_ids": [],
        "router_calls": len(charged),
        "router_prompt_tokens": 0,
        "router_cached_tokens": 0,
        "router_completion_tokens": 0,
    }
    for message in used:
        columns["router_messages"].append(message.text)
        columns["router_finish_reasons"].append(message.finish_reason)
        columns["router_engine_ids"].append(message.engine_id)
    for message in charged:
        columns["router_prompt_tokens"] += message.prompt_tokens
        columns["router_cached_tokens"] += message.cached_tokens
        columns["router_completion_tokens"] += message.completion_tokens
    error = next((m.error for m in used if m.error), None)
    ballots = tuple(prompts) if voting else ()
    return Presentation(
        "\n\n".join(prompts), item.options, item.gold, columns, error, ballots=ballots
    )


def _prompts(work: Work, item: Item, part: Part, routers: int, texts: list[str]) -> list[str]:
    """Return the worker's prompts: one prompt or, in a vote, one prompt for each message."""
    if part.arm == Arm.DIRECT:
        return [direct_prompt(work.protocol, item, work.reading)]
    if part.arm == DELETED:
        seed = work.seed_of(item, DELETED, None, part.replicate, DELETED)
        shortened = item.reworded(without_words(item.text, routers / 100, seed))
        texts = [question_text(work.protocol, shortened)]
    voting = work.state.aggregator == Aggregator.VOTE
    views = [[text] for text in texts] if voting else [texts]
    return [worker_prompt(work.protocol, view, len(item.options), work.reading) for view in views]


def without_words(text: str, share: float, seed: int) -> str:
    """Delete a share of the words of a text.

    Parameters
    ----------
    text : str
        The question.
    share : float
        The share of words to delete, 0-1.
    seed : int
        Seed of the random order in which words are deleted. With the same seed, a larger share
        deletes all words that a smaller share deletes, and more.

    Returns
    -------
    str
        The remaining words. The number of deleted words is rounded up or down at random.
    """
    words = re.findall(r"\S+\s*", text)
    rng = random.Random(seed)
    count = int(share * len(words) + rng.random())
    deleted = set(rng.sample(range(len(words)), len(words))[:count])
    remaining = []
    for k, word in enumerate(words):
        if k not in deleted:
            remaining.append(word)
    return "".join(remaining).rstrip()


def router_prompt(
    protocol: Protocol, item: Item, arm: str, reading: Reading = Reading.LETTER
) -> str:
    """Return the prompt of the routers of an arm.

    All routers of a question have the same prompt and differ in their seeds only.

    Parameters
    ----------
    protocol : Protocol
        The prompts.
    item : Item
        The question.
    arm : str
        `forward_full` or `noisy_rewrite`.
    reading : Reading
        How the answer is read from the reply. Each free-form reading has a separate template.

    Returns
    -------
    str
        The filled template.
    """
    name = f"router_{arm}_{reading}" if reading in OF_READING else f"router_{arm}"
    return fill(protocol.templates[name], {"question": question_text(protocol, item)})


def aggregate(protocol: Protocol, messages: Sequence[str]) -> str:
    """Join router messages to the text that the worker reads.

    Parameters
    ----------
    protocol : Protocol
        The prompts, with the `message` template.
    messages : sequence of str
        The texts of the routers.

    Returns
    -------
    str
        The messages in order, numbered from 1, without their reasoning, separated by blank lines.
    """
    template, numbered = protocol.templates["message"], []
    for index, message in enumerate(messages, start=1):
        numbered.append(fill(template, {"index": str(index), "text": strip_thinking(message).text}))
    return "\n\n".join(numbered)


def worker_prompt(
    protocol: Protocol, messages: Sequence[str], n_options: int, reading: Reading
) -> str:
    """Return the worker's prompt in a router arm.

    Parameters
    ----------
    protocol : Protocol
        The prompts.
    messages : sequence of str
        The router messages that the worker reads.
    n_options : int
        Number of answer options.
    reading : Reading
        How the answer is read.

    Returns
    -------
    str
        The prompt. If the instructions of the template come before `{messages}`, the prompts at r
        and at r + 1 have the same beginning, so a prefix cache can reuse it.
    """
    return answering_prompt(
        protocol, "worker", "messages", aggregate(protocol, messages), n_options, reading
    )


SCHEMA = row_schema(
    "sweep",
    1,
    level="routers",
    level_doc="number of router messages; 0 for direct; for deleted, the percentage of deleted words",
    audit_columns=(
        ("draws", pa.string(), "independent or nested"),
        (
            "router_messages",
            pa.list_(pa.string()),
            "the routers' messages, verbatim; hostile text. With aggregator=summary, their summary comes last",
        ),
        ("router_finish_reasons", pa.list_(pa.string()), "stop, length or error, for each message"),
        (
            "router_engine_ids",
            pa.list_(pa.string()),
            "the engine of each message; one engine serves routers and worker",
        ),
        (
            "router_calls",
            pa.int32(),
            "router calls made for this row; with nested draws, only calls that no smaller r has made",
        ),
        ("router_prompt_tokens", pa.int32(), "prompt tokens of the router calls"),
        (
            "router_cached_tokens",
            pa.int32(),
            "prompt tokens of the router calls that came from the prefix cache",
        ),
        ("router_completion_tokens", pa.int32(), "tokens generated by the router calls"),
    ),
)


SWEEP = Audit(
    name="sweep",
    schema=SCHEMA,
    roles=Roles(baseline=(Arm.FORWARD_FULL, 1), arms=(*Arm, DELETED)),
    design=design_of,
    present=present,
    prepare=router_requests,
    prepare_role=ROUTER,
    answering=worker_of,
    templates=TEMPLATES,
)
