"""k votes of a model that sees the item, its key and the rewording: is the keyed answer still the right one?

The pure part: prompts and their reading. Who generates is a function `ModelRequest`s -> `Generation`s.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from string import ascii_uppercase

from audit.errors import LibraryError
from audit.prompting.templates import fill
from audit.prompting.thinking import strip_thinking
from audit.records import FinishReason, Generation
from audit.variants.record import Judgement, Variant
from audit.variants.requests import Generate, ModelRequest, replies_of

KEPT, BROKEN, UNSURE, UNREADABLE, FAILED = "kept", "broken", "unsure", "unreadable", "failed"
JUDGE_TEMPERATURE = 0.7  # votes are to differ where the judge is in doubt; at 0 they would be one vote
JUDGE_MAX_TOKENS = 512
CONTROLS_KEPT_MAX = 0.1
_VERDICT = re.compile(r"VERDICT\s*[:=]\s*[*_`\"']*\s*(KEPT|BROKEN|UNSURE)\b", re.IGNORECASE)


def judge_requests(templates: Mapping[str, str], variant: Variant, votes: int) -> list[ModelRequest]:
    """The k requests for one variant: one prompt, k keys."""
    prompt = fill(
        templates["judge"],
        {
            "context": variant.context.strip() or "(none)",
            "original": variant.original,
            "variant": variant.text,
            "key": _key(variant),
        },
    )
    return [
        ModelRequest(
            key=f"{variant.id}/judge/{k}",
            prompt=prompt,
            max_tokens=JUDGE_MAX_TOKENS,
            temperature=JUDGE_TEMPERATURE,
        )
        for k in range(votes)
    ]


def _key(variant: Variant) -> str:
    if not variant.options:
        return f"The right answer is {variant.target:g}."
    lines = [f"{a}. {text}" for a, text in zip(ascii_uppercase, variant.options, strict=False)]
    return "\n".join([*lines, f"The right answer is {ascii_uppercase[variant.gold]}."])


def read_vote(reply: Generation) -> str:
    """kept, broken, unsure, unreadable (no verdict, or two that disagree) or failed (no reply at all)."""
    if reply.error is not None or reply.finish_reason == FinishReason.ERROR:
        return FAILED
    words = {word.lower() for word in _VERDICT.findall(strip_thinking(reply.text).text)}
    if len(words) != 1:
        return UNREADABLE
    return words.pop()


def tally(votes: Sequence[str]) -> Judgement:
    """KEPT or BROKEN when more than half of all votes say so; FAILED when so many calls failed, UNREADABLE when so many
    say nothing; else TIE."""
    if not votes:
        return Judgement.NOT_ASKED
    counts = Counter(votes)
    for judgement, n in (
        (Judgement.KEPT, counts[KEPT]),
        (Judgement.BROKEN, counts[BROKEN]),
        (Judgement.FAILED, counts[FAILED]),
        (Judgement.UNREADABLE, counts[UNREADABLE] + counts[FAILED]),
    ):
        if 2 * n > len(votes):
            return judgement
    return Judgement.TIE


def check_judge(name: str, votes: Sequence[Sequence[str]]) -> None:
    """votes: on controls, each a question in another one's words. LibraryError where too many of them are kept: such a
    judge would keep what no longer asks the same. None: nothing is checked."""
    kept = sum(tally(one) == Judgement.KEPT for one in votes)
    if kept > CONTROLS_KEPT_MAX * len(votes):
        raise LibraryError(
            f"Judge {name} kept {kept} of {len(votes)} questions that were exchanged for another one. Expected at most "
            f"{CONTROLS_KEPT_MAX:.0%}: it does not see whether a rewording asks the same. Name a stronger judge=."
        )


def ask_judge(
    generate: Generate, templates: Mapping[str, str], variants: Sequence[Variant], votes: int
) -> list[tuple[str, ...]]:
    """The votes on each variant, k each, in order; one call of `generate` for all."""
    requests = [request for v in variants for request in judge_requests(templates, v, votes)]
    words = [read_vote(reply) for reply in replies_of(generate, requests)]
    return [tuple(words[i : i + votes]) for i in range(0, len(words), votes)]
