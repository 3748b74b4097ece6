"""The router-worker sweep as the pipeline runs it: what the routers and the worker are sent (song2026, section 4.3).

The worker's prompt in a router arm is made from the messages, the number of options and the reading; there is no
question among its arguments, so it cannot hold what the messages do not.
"""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from audit.audits import Audit, Roles, Work
from audit.prompting import OF_READING, answering_prompt, direct_prompt, fill, question_text, strip_thinking
from audit.records import Generation, GenerationRequest, Item, Part, Presentation, Protocol, Reading
from audit.shards.schema import row_schema
from audit.sweep.config import TEMPLATES, design_of, worker_of
from audit.sweep.design import DELETED, WITHOUT_ROUTER, Aggregator, Arm, Draws, n_messages

ROUTER = "router"
NOT_STORED = "the earlier run has no such message: nothing was asked"


@dataclass(frozen=True)
class Own:
    """What a sweep resolves for itself (`Work.own`): messages is where those of an earlier run are, that are answered
    in place of new ones."""

    aggregator: Aggregator = Aggregator.CONCATENATE
    messages: str | None = None


def router_requests(work: Work, item: Item, part: Part, replies: Sequence[Generation] = ()) -> list[GenerationRequest]:
    """The calls that write the messages of a router set, then those that sum them up at each r; none for direct."""
    wanted = n_messages(part)
    if part.arm in WITHOUT_ROUTER or work.own.messages is not None:
        return []
    if not replies:
        prompt = router_prompt(work.protocol, item, part.arm, work.reading)
        # Under nested draws message j of a replicate is the same for every r, so its seed does not know r.
        level = None if work.design.kind == Draws.NESTED else wanted
        return [_request(work, item, part, prompt, (level, part.replicate, ROUTER, j)) for j in range(wanted)]
    if work.own.aggregator != Aggregator.SUMMARY or len(replies) > wanted:
        return []
    template, texts = work.protocol.templates["router_summary"], [m.text for m in replies]
    prompts = [fill(template, {"messages": aggregate(work.protocol, texts[:r])}) for r in part.levels]
    keys = [(r, part.replicate, Aggregator.SUMMARY) for r in part.levels]
    return [_request(work, item, part, *one) for one in zip(prompts, keys, strict=True)]


def _request(work: Work, item: Item, part: Part, prompt: str, key: tuple[Any, ...]) -> GenerationRequest:
    """A call of the router's model. key: what its seed is drawn from beside question and arm."""
    seed, how, role = work.seed_of(item, part.arm, *key), work.preparing, f"{part.arm}/{ROUTER}"
    return GenerationRequest(prompt, item.id, role, seed, how.max_tokens, how.temperature, how.top_p)


def present(work: Work, item: Item, part: Part, messages: Sequence[Generation]) -> list[Presentation]:
    """What the worker sees at each r of a router set: its first r messages, as `Aggregator` has it.

    A message or summary that failed leaves nothing to ask.
    """
    earlier = work.own.messages
    if earlier is not None and part.arm not in WITHOUT_ROUTER:
        from audit.sweep.replay import stored  # it needs Arrow

        messages = stored(earlier, item, part)
        messages = [*messages, *[Generation(error=NOT_STORED)] * (n_messages(part) - len(messages))]
    summaries = messages[n_messages(part) :]
    return [_present(work, item, part, r, [*messages[:r], *summaries[k : k + 1]]) for k, r in enumerate(part.levels)]


def _present(work: Work, item: Item, part: Part, routers: int, used: Sequence[Generation]) -> Presentation:
    """used: the messages of so many routers, and their summary where there is one."""
    asked = _prompts(work, item, part, routers, [m.text for m in used[routers:] or used])
    alone = work.own.aggregator == Aggregator.VOTE and part.arm not in WITHOUT_ROUTER
    # Nested draws: r pays for the messages that the next smaller r did not already have.
    had = max((r for r in part.levels if r < routers), default=0)
    paid = used[had:] if work.own.messages is None else ()
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
    ballots = tuple(asked) if alone else ()
    return Presentation("\n\n".join(asked), item.options, item.gold, own, failed, ballots=ballots)


def _prompts(work: Work, item: Item, part: Part, routers: int, texts: list[str]) -> list[str]:
    """What the worker is asked: of a vote each message alone."""
    if part.arm == Arm.DIRECT:
        return [direct_prompt(work.protocol, item, work.reading)]
    if part.arm == DELETED:
        seed = work.seed_of(item, DELETED, None, part.replicate, DELETED)
        left = item.reworded(without_words(item.text, routers / 100, seed))
        texts = [question_text(work.protocol, left)]
    alone = work.own.aggregator == Aggregator.VOTE
    views = [[text] for text in texts] if alone else [texts]
    return [worker_prompt(work.protocol, some, len(item.options), work.reading) for some in views]


def without_words(text: str, share: float, seed: int) -> str:
    """A text less a share of its words, drawn by the seed; what a smaller share deletes a larger one does too. Their
    number is rounded up or down by chance, once for all shares."""
    words = re.findall(r"\S+\s*", text)
    rng = random.Random(seed)
    count = int(share * len(words) + rng.random())
    gone = set(rng.sample(range(len(words)), len(words))[:count])
    return "".join(word for k, word in enumerate(words) if k not in gone).rstrip()


def router_prompt(protocol: Protocol, item: Item, arm: str, reading: Reading = Reading.LETTER) -> str:
    """What every router of an arm is sent; routers of one question differ in their seeds only."""
    name = f"router_{arm}_{reading}" if reading in OF_READING else f"router_{arm}"
    return fill(protocol.templates[name], {"question": question_text(protocol, item)})


def aggregate(protocol: Protocol, messages: Sequence[str]) -> str:
    """The messages in order, numbered from 1, as the worker sees them; without a router's thinking."""
    return "\n\n".join(
        fill(protocol.templates["message"], {"index": str(i), "text": strip_thinking(message).text})
        for i, message in enumerate(messages, start=1)
    )


def worker_prompt(protocol: Protocol, messages: Sequence[str], n_options: int, reading: Reading) -> str:
    """What the worker is sent in a router arm. Prompts for more of the same messages begin alike, for prefix caches,
    where the template puts its instructions before `{messages}`."""
    return answering_prompt(protocol, "worker", "messages", aggregate(protocol, messages), n_options, reading)


SCHEMA = row_schema(
    "sweep",
    1,
    level="routers",
    level_doc="number of router messages aggregated; 0 for direct; of deleted the percent of words that are gone",
    own=(
        ("draws", pa.string(), "independent or nested"),
        (
            "router_messages",
            pa.list_(pa.string()),
            "what the routers wrote, verbatim; hostile text. With aggregator=summary their summary comes last",
        ),
        ("router_finish_reasons", pa.list_(pa.string()), "stop, length or error, per message"),
        ("router_engine_ids", pa.list_(pa.string()), "the engine of each message; one serves both roles"),
        ("router_calls", pa.int32(), "calls made for this row: with nested draws, those that a smaller r had not"),
        ("router_prompt_tokens", pa.int32(), "prompt tokens of these calls"),
        ("router_cached_tokens", pa.int32(), "of these, served from the prefix cache"),
        ("router_completion_tokens", pa.int32(), "tokens generated by these calls"),
    ),
)  # fmt: skip


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
