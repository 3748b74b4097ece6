"""Make candidates for each question, and judge them by gates (acceptance checks).

This module does no I/O.

The embedder, the NLI classifier and the models are parameters. A judge sees the item, its key and
the rewording. It votes k times on whether the keyed answer is still the right answer.

Every gate measures every candidate, so that the funnel shows each gate's effect. The judge is an
exception, because its votes cost money. It votes only on candidates that all other gates accepted
and that have a finding of a rule. With `judge_scope=all` it votes on all candidates that were
accepted so far.
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
    """Return the judge's prompt for a variant.

    Parameters
    ----------
    templates : mapping of str to str
        The prompt templates.
    variant : Variant
        The variant.

    Returns
    -------
    str
        The prompt.
    """
    answer = ascii_uppercase[variant.gold] if variant.options else f"{variant.target:g}"
    values = {
        "context": variant.context.strip() or "(none)",
        "original": variant.original,
        "variant": variant.text,
        "key": "\n".join([*lettered(variant.options), f"The right answer is {answer}."]),
    }
    return fill(templates["judge"], values)


def read_vote(reply: Generation) -> str:
    """Return the vote that a judge's reply states: kept, broken, unsure, unreadable or failed.

    Parameters
    ----------
    reply : Generation
        The judge's reply.

    Returns
    -------
    str
        The vote. It is "failed" if there is no reply, and "unreadable" unless the reply has exactly
        one verdict.
    """
    if reply.failed:
        return FAILED
    words = set(map(str.lower, _VERDICT.findall(strip_thinking(reply.text).text)))
    return words.pop() if len(words) == 1 else UNREADABLE


def tally(votes: Sequence[str]) -> Judgement:
    """Return the judgement that the majority of a judge's votes gives.

    Parameters
    ----------
    votes : sequence of str
        Votes, as `read_vote` returns them.

    Returns
    -------
    Judgement
        KEPT or BROKEN if more than half of all votes agree. FAILED if more than half of the calls
        failed. UNREADABLE if more than half of the votes were unreadable or failed. Otherwise TIE.
    """
    if not votes:
        return Judgement.NOT_ASKED
    counts = Counter(votes)
    counts[UNREADABLE] += counts[FAILED]
    for side in (Judgement.KEPT, Judgement.BROKEN, Judgement.FAILED, Judgement.UNREADABLE):
        if 2 * counts[side] > len(votes):
            return side
    return Judgement.TIE


def check_judge(name: str, votes: Sequence[Sequence[str]]) -> None:
    """Raise LibraryError if a judge accepts control pairs, whose meanings differ.

    Parameters
    ----------
    name : str
        The name of the judge.
    votes : sequence of sequence of str
        The votes on each control pair. A control pair presents the text of another question as a
        rewording of the question.

    Raises
    ------
    LibraryError
        If the judge accepts too many control pairs. Such a judge would also accept rewordings that
        change the meaning.
    """
    n_kept = list(map(tally, votes)).count(Judgement.KEPT)
    if n_kept > CONTROLS_KEPT_MAX * len(votes):
        raise LibraryError(
            f"Judge {name} kept {n_kept} of {len(votes)} control pairs as having the same meaning, "
            "although each pairs a question with the text of another question. Expected at most "
            f"{CONTROLS_KEPT_MAX:.0%} kept pairs. Use a stronger judge. Example: judge=MODEL."
        )


@dataclass(frozen=True, slots=True)
class Judge:
    """Hold the model that votes.

    Attributes
    ----------
    generate : Generate
        The function that generates replies.
    templates : mapping of str to str
        The prompt templates.
    model : ModelRef
        The model.
    """

    generate: Generate
    templates: Mapping[str, str]
    model: ModelRef


def ask_judge(judge: Judge, variants: Sequence[Variant], votes: int) -> list[tuple[str, ...]]:
    """Return the votes on each variant, in order.

    Parameters
    ----------
    judge : Judge
        The model that votes.
    variants : sequence of Variant
        The variants.
    votes : int
        Number of votes on each variant.

    Returns
    -------
    list of tuple of str
        The votes on each variant.
    """
    prompts = {f"{v.id}/judge": judge_prompt(judge.templates, v) for v in variants}
    return list(votes_on(judge.generate, prompts, votes, read_vote).values())


# Some options refer to other options by their position. Another order would change their meaning.
_REFERS = re.compile(
    r"\b(?:all|none|both|either|neither|any) of (?:the|these)\b|\b(?:both|neither|either) \(?[A-H]\)?\b|"
    r"\b[A-H] (?:and|or|&) [A-H]\b|\babove\b|\bbelow\b"
)

Needed = Sequence[tuple[Item, Sequence[int]]]
Propose = Callable[[Needed, int], list[Candidate]]


@dataclass(frozen=True, slots=True)
class Gates:
    """Hold the gates (acceptance checks) that every candidate of a build must pass.

    Attributes
    ----------
    policy : Policy
        The thresholds.
    embedder : Embedder
        The model that measures the distance between a candidate and its original.
    nli, judge : Entailment or None, Judge or None
        The entailment classifier, and the model that votes. Each is None if its gate is not
        configured.
    seed : int
        The seed of shuffled options.
    """

    policy: Policy
    embedder: Embedder
    nli: Entailment | None = None
    judge: Judge | None = None
    seed: int = 42


def once(candidates: Sequence[Candidate]) -> Propose:
    """Return a strategy that proposes existing candidates at the first attempt, and no candidates
    at later attempts.
    """

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
    """Make and check candidates until each question has enough accepted variants.

    Parameters
    ----------
    questions : sequence of Item
        The questions.
    propose : Propose
        The strategy that makes candidates. It may propose more than needed; all are judged.
    gates : Gates
        The acceptance checks and their limits.
    num_variants : int
        Number of accepted variants that each question should have.
    max_attempts : int
        Largest number of attempts.

    Returns
    -------
    list of Variant
        All candidates with their measured values and states, in the order of the proposals.

    Notes
    -----
    In each attempt, the strategy is asked for as many candidates as a question still needs. The new
    candidates get unused numbers. The build ends after max_attempts attempts, or earlier if no
    candidate is needed or proposed.
    """
    by_id = {question.id: question for question in questions}
    variants: list[Variant] = []
    for attempt in range(max_attempts):
        used, accepted = Counter[str](), Counter[str]()
        for variant in variants:
            used[variant.question_id] += 1
            accepted[variant.question_id] += variant.accepted
        needed = []
        for id_, question in by_id.items():
            first, missing = used[id_] + 1, num_variants - accepted[id_]
            if missing > 0:
                needed.append((question, range(first, first + missing)))
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
    """Run the acceptance checks on every candidate, and mark it as accepted or rejected.

    Parameters
    ----------
    questions : mapping of str to Item
        The questions by id.
    candidates : sequence of Candidate
        The rewordings to check.
    gates : Gates
        The acceptance checks and their limits.
    earlier : iterable of Variant
        Variants of earlier attempts. A candidate with the same words is a duplicate.

    Returns
    -------
    list of Variant
        The candidates with the value of each check and their states, in the given order.
    """
    policy = gates.policy
    nli, judge = gates.nli is not None, gates.judge is not None
    variants = [_undecided(questions[c.question_id], c, policy, gates.seed) for c in candidates]
    variants = _with_repeats(variants, earlier)
    variants = _with_distances(variants, gates.embedder)
    variants = list(map(_with_findings, variants))
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


def _with_findings(variant: Variant) -> Variant:
    if not variant.text:
        return replace(variant, rules=())
    return replace(variant, rules=rule_findings(variant.original, variant.text, variant.options))


def _with_repeats(variants: list[Variant], earlier: Iterable[Variant]) -> list[Variant]:
    ids_by_words: dict[str, dict[str, str]] = defaultdict(dict)
    for variant in earlier:
        ids_by_words[variant.question_id].setdefault(same_words(variant.text), variant.id)
    checked = []
    for variant in variants:
        ids = ids_by_words[variant.question_id]
        if variant.text:
            variant = replace(variant, same_as=repeats(variant.text, variant.original, ids))
            ids.setdefault(same_words(variant.text), variant.id)
        checked.append(variant)
    return checked


def _with_distances(variants: list[Variant], embedder: Embedder) -> list[Variant]:
    unique: dict[str, None] = {}
    for variant in variants:
        if variant.text:
            unique |= dict.fromkeys((variant.original, variant.text))
    texts = list(unique)
    embeddings = dict(zip(texts, embedder.embed(texts), strict=True))
    measured = []
    for variant in variants:
        if variant.text:
            original, text = embeddings[variant.original], embeddings[variant.text]
            distance = cosine_distance(original, text)
            if distance is None:
                reason = f"variant: {text.error}"
                if original.error:
                    reason = f"original: {original.error}"
                variant = replace(variant, error=variant.error or reason)
            else:
                variant = replace(variant, distance=max(round(distance, DISTANCE_DIGITS), 0.0))
        measured.append(variant)
    return measured


def _with_entailment(variants: list[Variant], nli: Entailment) -> list[Variant]:
    """Return the variants with two entailment probabilities each, one for each direction.

    The entailment of an empty text is not measured.
    """
    places, forward_pairs, backward_pairs = [], [], []
    for i, variant in enumerate(variants):
        if variant.text:
            places.append(i)
            forward_pairs.append((variant.original, variant.text))
            backward_pairs.append((variant.text, variant.original))
    shares = list(map(_rounded, nli.entails([*forward_pairs, *backward_pairs])))
    n = len(places)
    measured = list(variants)
    for i, forward, backward in zip(places, shares[:n], shares[n:], strict=True):
        measured[i] = replace(variants[i], nli_forward=forward, nli_backward=backward)
    return measured


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, DISTANCE_DIGITS)


def _with_votes(
    variants: list[Variant], gates: Gates, judge: Judge, questions: Sequence[Item]
) -> list[Variant]:
    policy = gates.policy
    to_judge = []
    for variant in variants:
        routed = variant.rules or policy.judge_scope == "all"
        if routed and before_judge(variant, policy, nli=gates.nli is not None) is None:
            to_judge.append(variant)
    controls = _exchanged(questions[: policy.judge_controls], gates) if to_judge else []
    votes = ask_judge(judge, [*to_judge, *controls], policy.judge_votes)
    check_judge(judge.model.name, votes[len(to_judge) :])
    judged = {}
    for variant, cast in zip(to_judge, votes, strict=False):
        judged[variant.id] = replace(variant, judge_votes=cast, judgement=tally(cast))
    return [judged.get(v.id, v) for v in variants]


def _exchanged(questions: Sequence[Item], gates: Gates) -> list[Variant]:
    """Return the control pairs: each question with its key, and the text of the next question as
    its rewording.

    A sound judge rejects every control pair. If there is only one question, there is no control
    pair.
    """
    if len(questions) < 2:
        return []
    controls = []
    for question, other in zip(questions, [*questions[1:], *questions[:1]], strict=True):
        text = split_text(other.text, gates.policy).stem
        candidate = Candidate(question.id, 0, text, "control")
        controls.append(_undecided(question, candidate, gates.policy, gates.seed))
    return controls
