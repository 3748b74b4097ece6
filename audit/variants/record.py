"""Define the records of a variant library, its hash, and the requests that build it.

The hash is computed from the rows and the header in a canonical form. So it does not depend on the
order of the rows or on Arrow's encoding. If a library is reviewed or merged, the new library has
another hash, and its field `parents` names the earlier libraries.
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
# Distances are rounded before they are judged, because machines differ in the seventh digit.
DISTANCE_DIGITS = 4


class State(StrEnum):
    """Name the state of a candidate: accepted, or the first gate that stopped the candidate."""

    ACCEPTED = "accepted"
    FAILED = "failed"  # the paraphraser's reply is an error or cut off at its token limit
    EMPTY = "empty"
    NO_OP = "no_op"  # the words equal those of the original
    DUPLICATE = "duplicate"  # the words equal those of another variant
    NOT_EMBEDDED = "not_embedded"  # the text is too long for the embedder
    TOO_CLOSE = "too_close"
    TOO_FAR = "too_far"
    FACTS_LOST = "facts_lost"  # the text has no number of the original
    NOT_ENTAILED = "not_entailed"  # the NLI of a direction is below the cut, or was not computed
    AWAITING_JUDGE = "awaiting_judge"  # a rule has a finding, and the policy is to hold such texts
    JUDGED_BROKEN = "judged_broken"
    JUDGE_TIE = "judge_tie"
    JUDGE_UNREADABLE = "judge_unreadable"
    JUDGE_FAILED = "judge_failed"  # most calls of the judge failed, and can be repeated
    SUSPECT = "suspect"  # every model of the panel answers the original right and the variant wrong
    REVIEWED_BROKEN = "reviewed_broken"  # a person judged that the key is no longer right


class Judgement(StrEnum):
    """Name the result of k votes of a judge.

    TIE means that no side has more than half of the votes. FAILED means that more than half of the
    calls failed.
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
        The number of the candidate within its question, in the order of the proposals, from 1. A
        number is never reused.
    text : str
        The reworded part.
    source : str
        The row, rule or prompt that the candidate comes from.
    attempt : int
        The attempt in which the candidate was proposed, from 0.
    error : str or None
        Why the text is missing; None if there is a text.
    """

    question_id: str
    number: int
    text: str
    source: str
    attempt: int = 0
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Variant:
    """Hold one row of a library: a candidate, the value that each gate measured, and its state.

    A value is None if its gate did not run. `arrow.SCHEMA` documents each field.
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
        """Return the id of the variant, such as arc/12#3."""
        return f"{self.question_id}#{self.number}"

    @property
    def accepted(self) -> bool:
        """Return True if every gate accepted the candidate."""
        return self.state == State.ACCEPTED

    def reword(self, item: Item) -> Item:
        """Return the question with this variant's words, options and gold option.

        The question keeps its id.
        """
        reworded = item.reworded(self.context + self.text)
        return replace(reworded, options=self.options, gold=self.gold, order=self.order)


@dataclass(frozen=True, slots=True)
class ModelRef:
    """Name a model and the revision of the model that a build used.

    Attributes
    ----------
    name, revision : str
        Name and revision.
    """

    name: str
    revision: str


@dataclass(frozen=True, slots=True)
class Review:
    """Hold the result of reading a random sample of the accepted variants.

    Attributes
    ----------
    n, broken : int
        The number of variants that the person read, and how many of these variants are broken
        (their key is no longer right). A variant with the finding "unsure" counts as broken.
    upper_95 : float
        Exact one-sided 95 % upper limit of the share of broken variants, 0-1 (Clopper and Pearson
        1934).
    seed : int
        The seed of the sample.
    reviewer : str
        The person who read the sample.
    """

    n: int
    broken: int
    upper_95: float
    seed: int
    reviewer: str


@dataclass(frozen=True, slots=True)
class Header:
    """Describe the origin of a library: the settings of its build, and the results of later checks.

    Attributes
    ----------
    name, benchmark, benchmark_revision, questions_sha256, n_questions : str or int
        The library and its questions.
    strategy, num_variants, max_attempts, seed, sources : object
        The settings of the strategy. `sources` has the sha256 of each file of variants.
    window, changes, context, options : object
        The parts that may change, and the window of distances (`Policy`).
    embedder, nli, nli_cut, judge, judge_votes, judge_scope, unjudged : object
        The settings of the gates, with the models that they use.
    paraphraser, prompts_sha256 : object
        The model that rewords, and the hash of its prompts.
    review, panel, parents : object
        The review by a person, the reference models of the panel, and the hashes of the libraries
        that this library was made from.
    licence, schema_version : str, int
        The licence of the rewordings, and the version of the file.
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
        """Return the build settings in which two libraries differ."""
        return tuple(name for name in _MAKING if getattr(self, name) != getattr(other, name))


# These fields decide the difficulty and the soundness of rewordings of any question.
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
    """Hold all candidates of a build with their states, sorted by question and number.

    Attributes
    ----------
    header : Header
        The origin of the library.
    variants : tuple of Variant
        The candidates.
    sha256 : str
        The hash of header and rows, which names the library.
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
        """Return the accepted variants."""
        return tuple(v for v in self.variants if v.accepted)

    @property
    def counts(self) -> dict[str, int]:
        """Return the number of candidates in each state that occurs."""
        return dict(sorted(Counter(v.state.value for v in self.variants).items()))

    @property
    def asked_sha256(self) -> str:
        """Return the hash of the library without its review.

        A review by a person does not change this hash.
        """
        header = replace(self.header, review=None, parents=())
        unreviewed = []
        for variant in self.variants:
            reviewed = variant.state in (State.REVIEWED_BROKEN, State.ACCEPTED)
            state = State.ACCEPTED if reviewed else variant.state
            unreviewed.append(replace(variant, review="", state=state))
        return _library_sha256(header, unreviewed)

    def by_question(self) -> dict[str, tuple[Variant, ...]]:
        """Map each question to its accepted variants, sorted by number."""
        groups = groupby(self.accepted, key=lambda v: v.question_id)
        return {id_: tuple(variants) for id_, variants in groups}


def question_sha256(item: Item) -> str:
    """Return a hash (16 hex digits) of the content of a question.

    Variants are valid only for a question with the same hash.

    Parameters
    ----------
    item : Item
        The question.

    Returns
    -------
    str
        The hash of the text, the options in published order, the gold option and the target. It
        does not depend on the id, the format of the file, or a permutation of the options.
    """
    key = item.key if item.options else None
    content = [item.text, list(item.published), key, item.target]
    content += [item.code.tests] if item.code else []
    return hashlib.sha256(_canonical(content)).hexdigest()[:16]


def questions_sha256(questions: Iterable[Item]) -> str:
    """Return the sha256 of the ids and contents of a benchmark's questions.

    The hash does not depend on the file format or on the order of the questions.
    """
    lines = sorted(f"{q.id}\0{question_sha256(q)}\n" for q in questions)
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogatepass")).hexdigest()


def header_from(data: Mapping[str, Any]) -> Header:
    """Return a header from plain data.

    Parameters
    ----------
    data : mapping
        The JSON content of the Arrow metadata.

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
    """Hold one request to a model.

    Attributes
    ----------
    key : str
        A name that is unique within a build, and the same in every build with the same
        configuration. The seed of the call is computed from this name.
    prompt : str
        The user message.
    max_tokens, temperature, top_p : int or float
        The sampling parameters of the reply.
    """

    key: str
    prompt: str
    max_tokens: int
    temperature: float
    top_p: float = 1.0


JUDGE_TOKENS = 512  # A judge may think before it answers.
JUDGE_TEMPERATURE = 0.7  # At temperature 0, k votes of an unsure judge would be equal.

# A function that takes requests and returns their replies in order, without an engine.
Generate = Callable[[Sequence[ModelRequest]], Sequence[Generation]]


def replies_of(generate: Generate, requests: Sequence[ModelRequest]) -> list[Generation]:
    """Return a reply to each request.

    If there is no request, `generate` is not called.

    Parameters
    ----------
    generate : Generate
        The function that generates replies.
    requests : sequence of ModelRequest
        The requests.

    Returns
    -------
    list of Generation
        The replies, in order.

    Raises
    ------
    DataError
        If the number of replies differs from the number of requests.
    """
    replies = list(generate(requests)) if requests else []
    if len(replies) != len(requests):
        raise DataError(
            f"There are {len(replies)} replies for {len(requests)} requests. Expected a reply to "
            "each request."
        )
    return replies


def votes_on(
    generate: Generate, prompts: Mapping[str, str], k: int, read: Callable[[Generation], str]
) -> dict[str, tuple[str, ...]]:
    """Return a judge's k votes on each prompt, from a single call of `generate`.

    Parameters
    ----------
    generate : Generate
        The function that generates replies.
    prompts : mapping of str to str
        The prompts by key.
    k : int
        Number of votes on each prompt.
    read : callable
        Function that takes a reply and returns the vote that the reply states.

    Returns
    -------
    dict of str to tuple of str
        Maps the key of each prompt to the k votes on this prompt.
    """
    requests = []
    for key, prompt in prompts.items():
        for n in range(k):
            request = ModelRequest(f"{key}/{n}", prompt, JUDGE_TOKENS, JUDGE_TEMPERATURE)
            requests.append(request)
    votes = [read(reply) for reply in replies_of(generate, requests)]
    return {key: tuple(votes[i * k : (i + 1) * k]) for i, key in enumerate(prompts)}
