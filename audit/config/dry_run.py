"""Count what a run would ask: call the audit's own functions on some questions without an engine,
and scale.

Counts are exact if all questions are presented, and estimates if there are more.
"""

import json
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

from audit.config.audits import Audit, Work, answer_requests
from audit.config.plan_cost import CHARS_PER_TOKEN, PlannedCalls, Tokens, in_one_line, planned_cost
from audit.config.resolve import BenchmarkSample, ResolvedRun
from audit.core.aliases import named
from audit.core.errors import EngineError
from audit.core.exits import say
from audit.core.records import Generation, GenerationRequest, Item
from audit.shards.manifest import MANIFEST, plain
from audit.shards.questions import write_questions

PRESENTATIONS, FEWEST = 3_000, 50  # presentations of one model on one benchmark; fewest questions


@dataclass(frozen=True)
class Asked:
    """The calls of one model on one benchmark.

    planned: all calls and tokens, and their cost. arms: answers by arm. prepared: calls before the
    answers. tokens: by the name of the called model.
    """

    planned: PlannedCalls
    questions: int
    arms: Mapping[str, int]
    prepared: int
    tokens: Mapping[str, Tokens]


def dry_run(resolved: ResolvedRun) -> list[Asked]:
    """Count the calls of each model on each benchmark, with the run's files in a temporary folder.

    Parameters
    ----------
    resolved : ResolvedRun
        The run.

    Returns
    -------
    list of Asked
        One for each model and benchmark.
    """
    count = max(FEWEST, PRESENTATIONS // len(resolved.design.settings))
    with TemporaryDirectory() as folder:
        place = Path(folder)
        some = [list(islice(sample.questions(), count)) for sample in resolved.samples]
        write_questions(place, chain.from_iterable(some))
        if resolved.on_open is not None:
            resolved.on_open(place)
        return [
            _asked(resolved, resolved.work(name, place), sample, questions)
            for name in resolved.config.model
            for sample, questions in zip(resolved.samples, some, strict=True)
        ]


def _asked(
    resolved: ResolvedRun, work: Work, sample: BenchmarkSample, questions: Sequence[Item]
) -> Asked:
    arms = Counter[str | None](dict.fromkeys((part.arm for part in work.design.parts), 0))
    routed, answered = Counter[str](), Counter[str]()
    for arm, request in _requests(resolved.audit, work, questions):
        arms[arm] += 1
        chars = len(request.system + request.prompt) + sum(map(len, request.continuations))
        scored = request.continuations or request.letters or request.pieces
        sums = routed if arm is None else answered
        sums.update(chars=chars, generated=0 if scored else request.max_tokens)
    scale = sample.sample.n / max(1, len(questions))
    counts = {arm: round(scale * found) for arm, found in arms.items() if arm is not None}
    calls = round(scale * arms[None])
    own, theirs = (
        Tokens(int(scale * sums["chars"] / CHARS_PER_TOKEN), round(scale * sums["generated"]))
        for sums in (routed, answered)
    )
    both = Tokens(own.prompt + theirs.prompt, own.generated + theirs.generated)
    other = resolved.answering[work.model]
    tokens = (
        {work.model: both} if other.name == work.model else {work.model: own, other.name: theirs}
    )
    models = {other.name: other, work.model: resolved.config.model[work.model]}
    cost = planned_cost(resolved.config.cost, tokens, models)
    planned = PlannedCalls(
        work.model, sample.benchmark.name, calls + sum(counts.values()), both, cost
    )
    return Asked(planned, sample.sample.n, counts, calls, tokens)


def _requests(
    audit: Audit, work: Work, questions: Sequence[Item]
) -> Iterator[tuple[str | None, GenerationRequest]]:
    """Yield every call with its arm; None for calls before the answer.

    Replies to the latter are assumed to be as long as the question, or as their limit if that is
    shorter.
    """
    for question in questions:
        text = question.text + " ".join(question.options)
        for part in work.design.parts:
            replies: list[Generation] = []
            while prepared := audit.prepare(work, question, part, replies) if audit.prepare else []:
                yield from ((None, request) for request in prepared)
                replies += [
                    Generation(text=text[: int(one.max_tokens * CHARS_PER_TOKEN)])
                    for one in prepared
                ]
            presented = zip(
                part.settings, audit.present(work, question, part, replies), strict=True
            )
            asked = (
                r
                for s, one in presented
                if one.error is None
                for r in answer_requests(work, question, s, one)
            )
            yield from ((part.arm, request) for request in dict.fromkeys(asked))


def announced(resolved: ResolvedRun) -> list[str]:
    """Return the calls and the cost of a run of endpoints, a line for each model and benchmark;
    else empty.
    """
    own, answering = resolved.config.model, resolved.answering
    if all("openai" not in (one.engine, answering[name].engine) for name, one in own.items()):
        return []
    plans = [one.planned for one in dry_run(resolved)]
    return [f"{one.model} on {one.benchmark}: {in_one_line([(one, 1.0)])}" for one in plans]


def shortfall(resolved: ResolvedRun, needed: int | None, fewer: str = "") -> str:
    """Return a note if a design has fewer questions than its plan needs; else an empty text.

    Parameters
    ----------
    resolved : ResolvedRun
        The run.
    needed : int or None
        Questions needed; None if no number is enough.
    fewer : str
        How fewer would be enough, in brackets.

    Returns
    -------
    str
        One line.
    """
    first = resolved.samples[0]
    name, n, there = first.benchmark.name, first.sample.n, first.sample.n_distinct
    if needed is not None and n >= needed:
        return ""
    wanted = "no number" if needed is None else f"about {needed:,}"
    more = (
        f"type n={needed}"
        if needed is not None and there >= needed
        else f"{name} has {there:,} in all"
    )
    return (
        f"{n:,} questions of {name} are likely too few for a verdict: {wanted} would find or exclude the smallest "
        f"effect that matters{fewer}; {more}."
    )


def reach(
    resolved: ResolvedRun, asked: Sequence[Asked], needed: int | None, fewer: str = ""
) -> list[str]:
    """Return the command and cost of a run large enough for a verdict, or a note that the benchmark
    is too small.

    Parameters
    ----------
    resolved : ResolvedRun
        The run.
    asked : sequence of Asked
        Its calls.
    needed : int or None
        Questions needed; None if no number is enough.
    fewer : str
        How fewer would be enough, in brackets.

    Returns
    -------
    list of str
        Lines.
    """
    config, first = resolved.config, resolved.samples[0].sample
    if needed is None or first.n_distinct < needed:
        return [
            shortfall(resolved, needed, fewer)
            + ("" if needed is None else " Take a larger benchmark.")
        ]
    n = max(needed, first.n)
    shares = {s.benchmark.name: min(n, s.sample.n_distinct) / s.sample.n for s in resolved.samples}
    words = [word for word in config.typed or () if not word.startswith(("plan=", "n="))]
    command = shlex.join(["audit", resolved.audit.name, *words, f"n={n}"])
    cost = in_one_line([(one.planned, shares[one.planned.benchmark]) for one in asked])
    return [f"To reach a verdict: {command}", f"  {cost}"]


def called(one: Asked) -> dict[str, Any]:
    """Return the planned calls as a dict."""
    return asdict(one.planned)


@dataclass(frozen=True)
class Planned:
    """A planned run. describe: its lines for people. facts: of a model and benchmark, for
    programs."""

    resolved: ResolvedRun
    describe: Callable[[Sequence[Asked]], Sequence[str]]
    facts: Callable[[Asked], Mapping[str, Any]] = called

    def show(self, engines: Mapping[str, str] = MappingProxyType({})) -> int:
        """Print the plan, for people or for programs.

        Parameters
        ----------
        engines : mapping
            What the engine of each model needs.

        Returns
        -------
        int
            The exit code: 1 if a model cannot run.
        """
        run = self.resolved
        asked, path, failed = dry_run(run), run.path, run.failed
        if run.config.plan == "json":
            plans = [self.facts(one) for one in asked]
            print(
                json.dumps(
                    plain(
                        {
                            "run_dir": named(path),
                            "failed": failed,
                            "engines": dict(engines),
                            "plans": plans,
                        }
                    ),
                    indent=1,
                )
            )
        else:
            resumed = "  (exists: it would be resumed)" if (path / MANIFEST).exists() else ""
            print(f"run directory  {named(path)}{resumed}")
            for one, warning in (
                (s.benchmark, w) for s in run.samples for w in s.benchmark.warnings
            ):
                say(f"note: {one.name}: {warning}")
            print(
                *(f"{name}: cannot run: {why}" for name, why in failed.items()),
                *self.describe(asked),
                sep="\n",
            )
            print(*engines.values(), sep="\n", end="\n" if engines else "")
        return 1 if failed else 0

    def asked(self) -> list[Asked]:
        """Return the calls of each model. Raises EngineError if one cannot run, as the sum would
        look complete.
        """
        if self.resolved.failed:
            raise EngineError(
                "; ".join(f"{name}: {why}" for name, why in self.resolved.failed.items())
            )
        return dry_run(self.resolved)


def planned_answers(resolved: ResolvedRun, needed: int | None) -> Planned:
    """Return the plan of an audit that asks nothing beside the answers. needed: questions for a
    verdict."""

    def described(asked: Sequence[Asked]) -> list[str]:
        lines = chain.from_iterable(one.planned.lines() for one in asked)
        return [*lines, *reach(resolved, asked, needed)]

    return Planned(resolved, described)
