"""Define the records of a variant library, its hash, and the requests that build it. Pure.

A library's hash covers its rows and its header in a canonical form: it depends neither on the order
of the rows nor on how Arrow wrote them. A reviewed or merged library is another one, and names
those it came from in `parents`.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from itertools import groupby
from typing import Any

from audit.core.errors import DataError
from audit.core.records import Generation, Item

SCHEMA_VERSION = 1
DISTANCE_DIGITS = (
    4  # distances are rounded before they are judged: machines differ in the seventh digit
)


class State(StrEnum):
    """Name whether a candidate is a variant, and if not, the first gate that stopped it."""

    ACCEPTED = "accepted"
    FAILED = "failed"  # the paraphraser gave no text: an error, or cut off at its token limit
    EMPTY = "empty"
    NO_OP = "no_op"  # the original's own words
    DUPLICATE = "duplicate"  # another variant's words
    NOT_EMBEDDED = "not_embedded"  # longer than the embedder holds
    TOO_CLOSE = "too_close"
    TOO_FAR = "too_far"
    FACTS_LOST = "facts_lost"  # the text keeps none of the original's numbers
    NOT_ENTAILED = "not_entailed"  # NLI: a direction is below the cut, or could not be computed
    AWAITING_JUDGE = "awaiting_judge"  # a rule found something, no judge was configured, and the policy is to hold
    JUDGED_BROKEN = "judged_broken"
    JUDGE_TIE = "judge_tie"
    JUDGE_UNREADABLE = "judge_unreadable"
    JUDGE_FAILED = "judge_failed"  # most of the judge's calls failed: nothing is known, and it can be asked again
    SUSPECT = "suspect"  # reference panel: every model has the original right, and every one fails the variant
    REVIEWED_BROKEN = "reviewed_broken"  # a person found the gold answer lost


class Judgement(StrEnum):
    """Name the result of k votes of a judge.

    TIE: no side has more than half of the votes. FAILED: more than half of the calls failed.
    """

    NOT_ASKED = "not_asked"
    KEPT = "kept"
    BROKEN = "broken"
    TIE = "tie"
    UNREADABLE = "unreadable"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Candidate:
    """Hold a proposed rewording of the part of a question that may change.

    Attributes
    ----------
    question_id : str
        The question.
    number : int
        Counts from 1 within the question, in the order proposed, and is never reused.
    text : str
        Rewording of that part alone.
    source : str
        Row, rule or prompt that it came from.
    attempt : int
        Attempt of the strategy, from 0.
    error : str or None
        Why there is no text.
    """

    question_id: str
    number: int
    text: str
    source: str
    attempt: int = 0
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Variant:
    """Hold one row of a library: a candidate, every gate's finding (None: not available), and its
    state.

    `arrow.SCHEMA` documents each field.
    """

    question_id: str
    number: int
    question_sha256: str
    context: str
    original: str
    text: str
    options: tuple[str, ...]
    gold: int
    order: tuple[int, ...]
    target: float | None
    source: str
    attempt: int
    state: State
    same_as: str | None = None
    distance: float | None = None
    rules: tuple[str, ...] = ()
    nli_forward: float | None = None
    nli_backward: float | None = None
    judge_votes: tuple[str, ...] = ()
    judgement: Judgement = Judgement.NOT_ASKED
    panel: str = ""
    review: str = ""
    error: str | None = None

    @property
    def id(self) -> str:
        return f"{self.question_id}#{self.number}"

    @property
    def accepted(self) -> bool:
        return self.state == State.ACCEPTED

    def reword(self, item: Item) -> Item:
        """Return the question in this variant's words, under its own id; the gold option is found
        by its text."""
        reworded = item.reworded(self.context + self.text)
        return replace(reworded, options=self.options, gold=self.gold, order=self.order)


@dataclass(frozen=True, slots=True)
class ModelRef:
    """Name a model that had a part in a library, at a fixed revision.

    Attributes
    ----------
    name, revision : str
        Name and revision.
    """

    name: str
    revision: str


@dataclass(frozen=True, slots=True)
class Review:
    """Report what a person found in a random sample of the accepted variants.

    Attributes
    ----------
    n, broken : int
        Variants read, and those whose gold answer is no longer right (doubt counts as broken).
    upper_95 : float
        Exact one-sided 95 % bound on the share of broken variants (Clopper and Pearson 1934).
    seed : int
        Seed of the sample.
    reviewer : str
        Who read it.
    """

    n: int
    broken: int
    upper_95: float
    seed: int
    reviewer: str


@dataclass(frozen=True, slots=True)
class Header:
    """Describe where a library comes from: what decides its rows, and what is known of them.

    Attributes
    ----------
    name, benchmark, benchmark_revision, questions_sha256, n_questions : str or int
        The library and its questions.
    strategy, num_variants, max_attempts, seed, sources : object
        How candidates were made; sources: sha256 of variants files.
    window, changes, context, options : object
        What may change, and the window of distances (`Policy`).
    embedder, nli, nli_cut, judge, judge_votes, judge_scope, unjudged : object
        Gates.
    paraphraser, prompts_sha256 : object
        Model that rewords, and its prompts.
    review, panel, parents : object
        Findings of a person, reference models of the panel, and libraries it came from.
    licence, schema_version : str, int
        Licence of the rewordings, and version of the file.
    """

    name: str
    benchmark: str
    benchmark_revision: str
    questions_sha256: str
    n_questions: int
    strategy: str
    window: tuple[float, float]
    changes: str  # stem, or stem_and_context
    context: str  # how a question's text is cut into context and stem
    options: str  # keep, or permute
    num_variants: int
    max_attempts: int
    seed: int
    licence: str
    embedder: ModelRef
    nli: ModelRef | None = None
    nli_cut: float | None = None
    judge: ModelRef | None = None
    judge_votes: int = 0
    judge_scope: str = "routed"
    unjudged: str = "accept"
    paraphraser: ModelRef | None = None
    prompts_sha256: str = ""
    sources: tuple[str, ...] = ()  # sha256 of the files that variants were read from
    review: Review | None = None
    panel: tuple[str, ...] = ()  # reference models of the panel
    parents: tuple[str, ...] = ()
    schema_version: int = SCHEMA_VERSION

    def made_unlike(self, other: Header) -> tuple[str, ...]:
        """Return the fields in which two libraries were made differently: strategy, part that may
        change, gates."""
        return tuple(name for name in _MAKING if getattr(self, name) != getattr(other, name))


# These fields decide how hard and how sound rewordings are, whatever the questions.
_MAKING = (
    "strategy",
    "window",
    "changes",
    "options",
    "embedder",
    "nli",
    "nli_cut",
    "judge",
    "judge_votes",
    "judge_scope",
    "unjudged",
    "paraphraser",
    "prompts_sha256",
)


@dataclass(frozen=True)
class Library:
    """Hold every candidate with its findings, by question and number; `sha256` names it.

    Attributes
    ----------
    header : Header
        Where it comes from.
    variants : tuple of Variant
        Candidates.
    sha256 : str
        Hash of header and rows.
    """

    header: Header
    variants: tuple[Variant, ...]
    sha256: str = field(init=False)

    def __post_init__(self) -> None:
        ordered = tuple(sorted(self.variants, key=lambda v: (v.question_id, v.number)))
        object.__setattr__(self, "variants", ordered)
        object.__setattr__(self, "sha256", _library_sha256(self.header, ordered))

    @property
    def accepted(self) -> tuple[Variant, ...]:
        return tuple(v for v in self.variants if v.accepted)

    @property
    def counts(self) -> dict[str, int]:
        """Return candidates by state; states that no candidate has are left out."""
        return dict(sorted(Counter(v.state.value for v in self.variants).items()))

    @property
    def asked_sha256(self) -> str:
        """Return the hash without a person's findings: equal for a library and for its reviewed
        successor."""
        header = replace(self.header, review=None, parents=())
        reviewed = (State.REVIEWED_BROKEN, State.ACCEPTED)
        plain = (
            replace(v, review="", state=State.ACCEPTED if v.state in reviewed else v.state)
            for v in self.variants
        )
        return _library_sha256(header, plain)

    def by_question(self) -> dict[str, tuple[Variant, ...]]:
        """Return the accepted variants of each question, by number."""
        groups = groupby(self.accepted, key=lambda v: v.question_id)
        return {id_: tuple(variants) for id_, variants in groups}


def question_sha256(item: Item) -> str:
    """Return the sha256 (16 hex digits) of what a variant must fit.

    Parameters
    ----------
    item : Item
        The question.

    Returns
    -------
    str
        Hash of the text, the options in published order, the gold one and the target. The file's
        format, the order in which options are shown, and the id are not part of it.
    """
    key = item.key if item.options else None
    content = [item.text, list(item.published), key, item.target]
    content += [item.code.tests] if item.code else []
    return hashlib.sha256(_canonical(content)).hexdigest()[:16]


def questions_sha256(questions: Iterable[Item]) -> str:
    """Return the sha256 of a benchmark's content: ids with `question_sha256`, in whatever file or
    order."""
    lines = sorted(f"{q.id}\0{question_sha256(q)}\n" for q in questions)
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogatepass")).hexdigest()


def header_from(data: Mapping[str, Any]) -> Header:
    """Return the header from plain data, as the Arrow metadata holds it.

    Parameters
    ----------
    data : mapping
        JSON content.

    Returns
    -------
    Header
        The header.

    Raises
    ------
    TypeError, KeyError
        If the data is not a header.
    """
    plain = dict(data)
    for name in ("embedder", "nli", "judge", "paraphraser"):
        plain[name] = ModelRef(**plain[name]) if plain.get(name) else None
    plain["review"] = Review(**plain["review"]) if plain.get("review") else None
    for name in ("window", "sources", "panel", "parents"):
        plain[name] = tuple(plain[name])
    return Header(**plain)


def _library_sha256(header: Header, ordered: Iterable[Variant]) -> str:
    digest = hashlib.sha256(_canonical(asdict(header)) + b"\n")
    for variant in ordered:
        digest.update(_canonical(asdict(variant)) + b"\n")
    return digest.hexdigest()


def _canonical(value: Any) -> bytes:
    return json.dumps(
        value, sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False
    ).encode("ascii")


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """Hold one user message.

    Attributes
    ----------
    key : str
        Unique within a build and equal in every build of the same configuration; the call's seed is
        derived from it.
    prompt : str
        The message.
    max_tokens, temperature, top_p : int or float
        Limits of the reply.
    """

    key: str
    prompt: str
    max_tokens: int
    temperature: float
    top_p: float = 1.0


JUDGE_TOKENS = 512  # A judge may think before it answers.
JUDGE_TEMPERATURE = 0.7  # votes should differ if the judge is in doubt; at 0 they would be one vote

# A function that takes requests and returns their replies in order, without an engine.
Generate = Callable[[Sequence[ModelRequest]], Sequence[Generation]]


def replies_of(generate: Generate, requests: Sequence[ModelRequest]) -> list[Generation]:
    """Return the replies, one a request; nothing is generated for no requests.

    Parameters
    ----------
    generate : Generate
        Function that generates replies.
    requests : sequence of ModelRequest
        Requests.

    Returns
    -------
    list of Generation
        Replies.

    Raises
    ------
    DataError
        If their number is another.
    """
    replies = list(generate(requests)) if requests else []
    if len(replies) != len(requests):
        raise DataError(
            f"{len(replies)} replies for {len(requests)} requests; expected one each, in order."
        )
    return replies


def votes_on(
    generate: Generate, prompts: Mapping[str, str], k: int, read: Callable[[Generation], str]
) -> dict[str, tuple[str, ...]]:
    """Return a judge's k votes on each prompt; one call of `generate` for all.

    Parameters
    ----------
    generate : Generate
        Function that generates replies.
    prompts : mapping of str to str
        Prompts by key.
    k : int
        Votes on each.
    read : callable
        Returns a reply's vote.

    Returns
    -------
    dict of str to tuple of str
        Votes by the prompt's key.
    """
    requests = [
        ModelRequest(f"{key}/{n}", prompt, JUDGE_TOKENS, JUDGE_TEMPERATURE)
        for key, prompt in prompts.items()
        for n in range(k)
    ]
    words = [read(reply) for reply in replies_of(generate, requests)]
    return {key: tuple(words[i * k : (i + 1) * k]) for i, key in enumerate(prompts)}
