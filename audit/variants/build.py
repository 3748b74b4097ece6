"""Build variants: questions -> candidates -> gates. Pure: embedder, NLI and models are passed as
functions.

A judge sees the item, its key and the rewording, and votes k times on whether the keyed answer is
still the right one.

Every gate's value is computed for every candidate, accepted or not, so that the funnel can be read
from any side. The one exception is the judge, whose votes cost money. It votes on candidates that
every gate before it accepted and that a rule routed to it (`judge_scope=all`: on all that were
accepted so far).
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from string import ascii_uppercase

from audit.benchmarks.rows import shuffled
from audit.core.errors import LibraryError
from audit.core.json_types import attributes
from audit.core.prompting import fill, lettered, seed_of, strip_thinking
from audit.core.records import Generation, Item
from audit.engines.embedder import Embedder, cosine_distance
from audit.engines.entailment import Entailment
from audit.variants.config import Policy, split_text
from audit.variants.record import (
    DISTANCE_DIGITS,
    Candidate,
    Generate,
    Judgement,
    ModelRef,
    State,
    Variant,
    question_sha256,
    votes_on,
)
from audit.variants.rules import before_judge, decide, repeats, rule_findings, same_words

UNREADABLE, FAILED = Judgement.UNREADABLE.value, Judgement.FAILED.value
CONTROLS_KEPT_MAX = 0.1
_VERDICT = re.compile(r"VERDICT\s*[:=]\s*[*_`\"']*\s*(KEPT|BROKEN|UNSURE)\b", re.IGNORECASE)


def judge_prompt(templates: Mapping[str, str], variant: Variant) -> str:
    answer = ascii_uppercase[variant.gold] if variant.options else f"{variant.target:g}"
    values = {
        "context": variant.context.strip() or "(none)",
        "original": variant.original,
        "variant": variant.text,
        "key": "\n".join([*lettered(variant.options), f"The right answer is {answer}."]),
    }
    return fill(templates["judge"], values)


def read_vote(reply: Generation) -> str:
    """Return a judge's vote: kept, broken, unsure, unreadable or failed.

    Parameters
    ----------
    reply : Generation
        The judge's reply.

    Returns
    -------
    str
        unreadable without a verdict, or with two that disagree; failed without a reply.
    """
    if reply.failed:
        return FAILED
    words = {word.lower() for word in _VERDICT.findall(strip_thinking(reply.text).text)}
    return words.pop() if len(words) == 1 else UNREADABLE


def tally(votes: Sequence[str]) -> Judgement:
    """Return the judgement that some votes give.

    Parameters
    ----------
    votes : sequence of str
        Votes of `read_vote`.

    Returns
    -------
    Judgement
        KEPT or BROKEN if more than half of all votes agree; FAILED if as many calls failed;
        UNREADABLE if as many votes were unreadable or failed; else TIE.
    """
    if not votes:
        return Judgement.NOT_ASKED
    counts = Counter(votes)
    counts[UNREADABLE] += counts[FAILED]
    sides = (Judgement.KEPT, Judgement.BROKEN, Judgement.FAILED, Judgement.UNREADABLE)
    return next((side for side in sides if 2 * counts[side] > len(votes)), Judgement.TIE)


def check_judge(name: str, votes: Sequence[Sequence[str]]) -> None:
    """Raise if a judge keeps exchanged questions.

    Parameters
    ----------
    name : str
        Name of the judge.
    votes : sequence of sequence of str
        Votes on controls, each a question in another one's words; without controls nothing is
        checked.

    Raises
    ------
    LibraryError
        If too many controls are kept: such a judge would keep rewordings that no longer ask the
        same.
    """
    kept = sum(tally(vote) == Judgement.KEPT for vote in votes)
    if kept > CONTROLS_KEPT_MAX * len(votes):
        raise LibraryError(
            f"Judge {name} kept {kept} of {len(votes)} questions that were exchanged for another one. Expected at most "
            f"{CONTROLS_KEPT_MAX:.0%}: it does not see whether a rewording asks the same. Name a stronger judge=."
        )


@dataclass(frozen=True, slots=True)
class Judge:
    """Hold the voting model.

    Attributes
    ----------
    generate : Generate
        Function that generates replies.
    templates : mapping of str to str
        Templates of the prompts.
    model : ModelRef
        The model.
    """

    generate: Generate
    templates: Mapping[str, str]
    model: ModelRef


def ask_judge(judge: Judge, variants: Sequence[Variant], votes: int) -> list[tuple[str, ...]]:
    """Return the votes on each variant, k each, in order."""
    prompts = {f"{v.id}/judge": judge_prompt(judge.templates, v) for v in variants}
    return list(votes_on(judge.generate, prompts, votes, read_vote).values())


# Options that speak of other options by place: another order would change what they say.
_REFERS = re.compile(
    r"\b(?:all|none|both|either|neither|any) of (?:the|these)\b|\b(?:both|neither|either) \(?[A-H]\)?\b|"
    r"\b[A-H] (?:and|or|&) [A-H]\b|\babove\b|\bbelow\b"
)

Needed = Sequence[tuple[Item, Sequence[int]]]
Propose = Callable[[Needed, int], list[Candidate]]


@dataclass(frozen=True, slots=True)
class Gates:
    """Hold the gates by which a build judges candidates.

    Attributes
    ----------
    policy : Policy
        Thresholds.
    embedder : Embedder
        Gives distances.
    nli, judge : Entailment or None, Judge or None
        None if not configured.
    seed : int
        Seed of shuffled options.
    """

    policy: Policy
    embedder: Embedder
    nli: Entailment | None = None
    judge: Judge | None = None
    seed: int = 42


def once(candidates: Sequence[Candidate]) -> Propose:
    """Return the strategy of existing candidates: all at the first attempt, none later."""

    def propose(needed: Needed, attempt: int) -> list[Candidate]:
        return list(candidates) if attempt == 0 else []

    return propose


def build_variants(
    questions: Sequence[Item],
    propose: Propose,
    gates: Gates,
    *,
    num_variants: int,
    max_attempts: int,
) -> list[Variant]:
    """Return every candidate with its findings.

    Parameters
    ----------
    questions : sequence of Item
        Questions.
    propose : Propose
        Strategy that makes candidates. It may offer more than needed; all are judged.
    gates : Gates
        Gates.
    num_variants : int
        Accepted variants that each question should have.
    max_attempts : int
        Number of attempts.

    Returns
    -------
    list of Variant
        Candidates in the order proposed.

    Notes
    -----
    An attempt asks `propose` for as many candidates as each question still lacks, under unused
    numbers. The build ends after max_attempts, or when nothing is lacking or proposed.
    """
    by_id = {question.id: question for question in questions}
    variants: list[Variant] = []
    for attempt in range(max_attempts):
        accepted = Counter(v.question_id for v in variants if v.accepted)
        used = Counter(v.question_id for v in variants)
        needed = [
            (question, range(used[id_] + 1, used[id_] + 1 + num_variants - accepted[id_]))
            for id_, question in by_id.items()
            if accepted[id_] < num_variants
        ]
        candidates = propose(needed, attempt) if needed else []
        if not candidates:
            break
        variants += judge_candidates(by_id, candidates, gates, earlier=variants)
    return variants


def judge_candidates(
    questions: Mapping[str, Item],
    candidates: Sequence[Candidate],
    gates: Gates,
    earlier: Iterable[Variant] = (),
) -> list[Variant]:
    """Return the gates' values and the state of each candidate, in order.

    Parameters
    ----------
    questions : mapping of str to Item
        Questions by id.
    candidates : sequence of Candidate
        Candidates.
    gates : Gates
        Gates.
    earlier : iterable of Variant
        Variants that the candidates must not repeat.

    Returns
    -------
    list of Variant
        Candidates with findings.
    """
    policy = gates.policy
    nli, judge = gates.nli is not None, gates.judge is not None
    variants = [_undecided(questions[c.question_id], c, policy, gates.seed) for c in candidates]
    variants = _with_repeats(variants, earlier)
    variants = _with_distances(variants, gates.embedder)
    variants = [
        replace(v, rules=rule_findings(v.original, v.text, v.options) if v.text else ())
        for v in variants
    ]
    if gates.nli is not None:
        variants = _with_entailment(variants, gates.nli)
    if gates.judge is not None:
        variants = _with_votes(variants, gates, gates.judge, list(questions.values()))
    return [replace(v, state=decide(v, policy, nli=nli, judge=judge)) for v in variants]


def _undecided(item: Item, candidate: Candidate, policy: Policy, seed: int) -> Variant:
    shown = item
    if policy.options == "permute" and item.options and not any(map(_REFERS.search, item.options)):
        shown = shuffled(item, seed_of([seed, "permute", item.id, candidate.number]))
    context, stem = split_text(item.text, policy)
    return Variant(
        question_id=item.id,
        question_sha256=question_sha256(item),
        context=context,
        original=stem,
        text=candidate.text.strip(),
        state=State.EMPTY,
        **attributes(shown, "options", "gold", "order", "target"),
        **attributes(candidate, "number", "source", "attempt", "error"),
    )


def _with_repeats(variants: list[Variant], earlier: Iterable[Variant]) -> list[Variant]:
    words: dict[str, dict[str, str]] = defaultdict(dict)
    for variant in earlier:
        words[variant.question_id].setdefault(same_words(variant.text), variant.id)
    checked = []
    for variant in variants:
        mine = words[variant.question_id]
        if variant.text:
            variant = replace(variant, same_as=repeats(variant.text, variant.original, mine))
            mine.setdefault(same_words(variant.text), variant.id)
        checked.append(variant)
    return checked


def _with_distances(variants: list[Variant], embedder: Embedder) -> list[Variant]:
    texts = list(dict.fromkeys(text for v in variants if v.text for text in (v.original, v.text)))
    embeddings = dict(zip(texts, embedder.embed(texts), strict=True))
    measured = []
    for variant in variants:
        if variant.text:
            original, text = embeddings[variant.original], embeddings[variant.text]
            distance = cosine_distance(original, text)
            which = f"original: {original.error}" if original.error else f"variant: {text.error}"
            variant = (
                replace(variant, error=variant.error or which)
                if distance is None
                else replace(variant, distance=max(round(distance, DISTANCE_DIGITS), 0.0))
            )
        measured.append(variant)
    return measured


def _with_entailment(variants: list[Variant], nli: Entailment) -> list[Variant]:
    """Return the variants with the entailment in both directions, for every candidate with a
    text."""
    with_text = [i for i, v in enumerate(variants) if v.text]
    pairs = [(variants[i].original, variants[i].text) for i in with_text]
    shares = nli.entails([*pairs, *((text, original) for original, text in pairs)])
    measured = list(variants)
    for k, i in enumerate(with_text):
        forward, backward = (
            None if s is None else round(s, DISTANCE_DIGITS) for s in shares[k :: len(with_text)]
        )
        measured[i] = replace(variants[i], nli_forward=forward, nli_backward=backward)
    return measured


def _with_votes(
    variants: list[Variant], gates: Gates, judge: Judge, questions: Sequence[Item]
) -> list[Variant]:
    policy = gates.policy
    routed = [v for v in variants if v.rules or policy.judge_scope == "all"]
    to_judge = [v for v in routed if before_judge(v, policy, nli=gates.nli is not None) is None]
    controls = _exchanged(questions[: policy.judge_controls], gates) if to_judge else []
    votes = ask_judge(judge, [*to_judge, *controls], policy.judge_votes)
    check_judge(judge.model.name, votes[len(to_judge) :])
    voted = {
        v.id: replace(v, judge_votes=w, judgement=tally(w))
        for v, w in zip(to_judge, votes, strict=False)
    }
    return [voted.get(v.id, v) for v in variants]


def _exchanged(questions: Sequence[Item], gates: Gates) -> list[Variant]:
    """Return each question in the words of the next one, with its own key; empty for a single
    question.

    No sound judge keeps these.
    """
    pairs = zip(questions, [*questions[1:], *questions[:1]], strict=True)
    texts = {
        q.id: Candidate(q.id, 0, split_text(other.text, gates.policy).stem, "control")
        for q, other in pairs
    }
    return (
        [_undecided(q, texts[q.id], gates.policy, gates.seed) for q in questions]
        if len(questions) > 1
        else []
    )
