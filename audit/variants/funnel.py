"""The acceptance funnel: how many candidates are left after each gate, as data and as text. Pure."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from audit.variants.record import Header, Judgement, Library, State
from audit.variants.rules import WINDOW_NOTE
from audit.verdict.result import percent

_BAR_CHARS = 30


@dataclass(frozen=True, slots=True)
class Stage:
    """One gate: candidates left after it, and those it stopped, by state. run: False where it was not configured."""

    name: str
    label: str
    left: int
    stopped: Mapping[str, int]
    run: bool = True


@dataclass(frozen=True, slots=True)
class Funnel:
    """stages in the order of the gates. questions: of the benchmark; with_all, with_some, with_none: of these, with at
    least num_variants accepted variants, with fewer, with none. found: candidates with a rule finding; found_accepted:
    of the accepted ones, found_unjudged: of these, not seen by a judge."""

    candidates: int
    stages: tuple[Stage, ...]
    accepted: int
    questions: int
    num_variants: int
    with_all: int
    with_some: int
    with_none: int
    found: int
    found_accepted: int
    found_unjudged: int


def _gates(header: Header) -> list[tuple[str, str, tuple[State, ...], bool]]:
    low, high = header.window
    return [
        ("text", "have a text", (State.FAILED, State.EMPTY), True),
        ("novelty", "new words", (State.NO_OP, State.DUPLICATE), True),
        ("embedding", "fit the embedder", (State.NOT_EMBEDDED,), True),
        ("distance", f"distance {low:g}-{high:g}", (State.TOO_CLOSE, State.TOO_FAR), True),
        ("facts", "keep some of its numbers", (State.FACTS_LOST,), True),
        ("nli", "entailed both ways", (State.NOT_ENTAILED,), header.nli is not None),
        (
            "judge",
            "kept by the judge",
            (State.AWAITING_JUDGE, State.JUDGED_BROKEN, State.JUDGE_TIE, State.JUDGE_UNREADABLE, State.JUDGE_FAILED),
            header.judge is not None or header.unjudged == "hold",
        ),
        ("panel", "not suspect to the panel", (State.SUSPECT,), bool(header.panel)),
        ("review", "not broken to a reader", (State.REVIEWED_BROKEN,), header.review is not None),
    ]


def funnel(library: Library) -> Funnel:
    """Count a library's candidates gate by gate."""
    header, states = library.header, Counter(v.state for v in library.variants)
    left = len(library.variants)
    stages = []
    for name, label, stops, run in _gates(header):
        stopped = {state.value: states[state] for state in stops if states[state]}
        left -= sum(stopped.values())
        stages.append(Stage(name, label, left, stopped, run))
    per_question = Counter(v.question_id for v in library.accepted)
    full = sum(n >= header.num_variants for n in per_question.values())
    found = [v for v in library.accepted if v.rules]
    return Funnel(
        candidates=len(library.variants),
        stages=tuple(stages),
        accepted=len(library.accepted),
        questions=header.n_questions,
        num_variants=header.num_variants,
        with_all=full,
        with_some=len(per_question) - full,
        with_none=header.n_questions - len(per_question),
        found=sum(bool(v.rules) for v in library.variants),
        found_accepted=len(found),
        found_unjudged=sum(v.judgement == Judgement.NOT_ASKED for v in found),
    )


def funnel_text(result: Funnel, header: Header) -> str:
    """The funnel as lines of text, with what the window does not see."""
    lines = [f"{'candidates':<26}{result.candidates:>7}"]
    for stage in result.stages:
        if not stage.run:
            lines.append(f"{stage.label:<26}{'-':>7}  not run")
            continue
        bar = "#" * round(_BAR_CHARS * stage.left / max(result.candidates, 1))
        stopped = ", ".join(f"{n} {state.replace('_', ' ')}" for state, n in stage.stopped.items())
        lines.append(f"{stage.label:<26}{stage.left:>7}  {bar:<{_BAR_CHARS}}  {stopped}".rstrip())
    n = result.num_variants
    wanted = f"{n} variants or more" if n > 1 else "a variant"
    fewer = f", {result.with_some} with fewer" if n > 1 else ""
    lines.append(f"{result.questions} questions: {result.with_all} with {wanted}{fewer}, {result.with_none} with none.")
    unjudged = f", {result.found_unjudged} of which no judge has seen" if result.found_unjudged else ""
    lines.append(f"Rules: findings on {result.found} candidates, on {result.found_accepted} accepted ones{unjudged}.")
    if header.review is None:
        lines.append("Broken variants: unknown; no person has read a sample (audit variants review).")
    else:
        review = header.review
        lines.append(
            f"Broken variants: {review.broken} of {review.n} read; at most {percent(review.upper_95)} (95 %, exact)."
        )
    return "\n".join([*lines, WINDOW_NOTE])
