"""Format the acceptance funnel: the number of candidates that remain after each gate."""

from collections import Counter
from operator import attrgetter

from audit.core.number_text import percent
from audit.variants.record import Header, Judgement, Library, State
from audit.variants.rules import WINDOW_NOTE

_BAR_CHARS = 30
_JUDGED = (
    State.AWAITING_JUDGE,
    State.JUDGED_BROKEN,
    State.JUDGE_TIE,
    State.JUDGE_UNREADABLE,
    State.JUDGE_FAILED,
)


def _gates(header: Header) -> list[tuple[str, tuple[State, ...], bool]]:
    """Return one tuple for each gate, in order: its label, the states that it gives to rejected
    candidates, and whether it ran.
    """
    low, high = header.window
    return [
        ("have a text", (State.FAILED, State.EMPTY), True),
        ("new words", (State.NO_OP, State.DUPLICATE), True),
        ("fit the embedder", (State.NOT_EMBEDDED,), True),
        (f"distance {low:g}-{high:g}", (State.TOO_CLOSE, State.TOO_FAR), True),
        ("keep some of its numbers", (State.FACTS_LOST,), True),
        ("entailed both ways", (State.NOT_ENTAILED,), header.nli is not None),
        ("kept by the judge", _JUDGED, header.judge is not None or header.unjudged == "hold"),
        ("passed the panel", (State.SUSPECT,), bool(header.panel)),
        ("passed the review", (State.REVIEWED_BROKEN,), header.review is not None),
    ]


def funnel_text(library: Library) -> str:
    """Return the numbers of remaining candidates as lines of text, with a note on the limits of
    the distance window.
    """
    header = library.header
    states = Counter(map(attrgetter("state"), library.variants))
    left = total = len(library.variants)
    lines = [f"{'candidates':<26}{total:>7}"]
    for label, stops, run in _gates(header):
        if not run:
            lines.append(f"{label:<26}{'-':>7}  not run")
            continue
        reasons = []
        for state in stops:
            if states[state]:
                left -= states[state]
                reasons.append(f"{states[state]} {state.replace('_', ' ')}")
        bar = "#" * round(_BAR_CHARS * left / max(total, 1))
        lines.append(f"{label:<26}{left:>7}  {bar:<{_BAR_CHARS}}  {', '.join(reasons)}".rstrip())

    n = header.num_variants
    per_question = Counter(map(attrgetter("question_id"), library.accepted))
    full = sum(count >= n for count in per_question.values())
    wanted = f"{n} variants or more" if n > 1 else "a variant"
    fewer = f", {len(per_question) - full} with fewer" if n > 1 else ""
    none = header.n_questions - len(per_question)
    lines.append(f"{header.n_questions} questions: {full} with {wanted}{fewer}, {none} with none.")

    flagged = accepted = unseen = 0
    for variant in library.variants:
        if variant.rules:
            flagged += 1
            accepted += variant.accepted
            unseen += variant.accepted and variant.judgement == Judgement.NOT_ASKED
    unjudged = f" (no judge saw {unseen} of these)" if unseen else ""
    counts = f"{flagged} candidates, of which {accepted} are accepted{unjudged}"
    lines.append(f"Rules: findings on {counts}.")

    broken = "unknown; no person has read a sample (audit variants review)"
    review = header.review
    if review is not None:
        bound = percent(review.upper_95)
        broken = f"{review.broken} of {review.n} read; at most {bound} (95 %, exact)"
    return "\n".join([*lines, f"Broken variants: {broken}.", WINDOW_NOTE])
