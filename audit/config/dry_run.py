"""Count the calls of a run without an engine.

The functions of the audit are called on some of the questions, and the counts are scaled to all of
them. Counts are exact if every question is presented, and estimates otherwise.
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

# largest number of presentations that are computed for one model and one benchmark
PRESENTATIONS = 3_000
FEWEST = 50  # smallest number of questions for which presentations are computed


@dataclass(frozen=True)
class CallCounts:
    """Hold the calls of one model on one benchmark.

    Attributes
    ----------
    planned : PlannedCalls
        All calls, with their tokens and their cost.
    questions : int
        Number of questions.
    arms : Mapping[str, int]
        Number of answers by arm.
    prepared : int
        Number of calls that prepare the run, before the model is asked the questions.
    tokens : Mapping[str, Tokens]
        Tokens, by the name of the model that receives the calls.
    """

    planned: PlannedCalls
    questions: int
    arms: Mapping[str, int]
    prepared: int
    tokens: Mapping[str, Tokens]


def dry_run(resolved: ResolvedRun) -> list[CallCounts]:
    """Count the calls of each model on each benchmark, with the run's files in a temporary folder.

    Parameters
    ----------
    resolved : ResolvedRun
        The run, with pinned benchmarks, prompts and models.

    Returns
    -------
    list of CallCounts
        The counts of each model on each benchmark.
    """
    count = max(FEWEST, PRESENTATIONS // len(resolved.design.settings))
    with TemporaryDirectory() as folder:
        place = Path(folder)
        tried = [list(islice(sample.questions(), count)) for sample in resolved.samples]
        write_questions(place, chain.from_iterable(tried))
        if resolved.on_open is not None:
            resolved.on_open(place)
        counts = []
        for name in resolved.config.model:
            for sample, questions in zip(resolved.samples, tried, strict=True):
                counts.append(_count(resolved, resolved.work(name, place), sample, questions))
        return counts


def _count(
    resolved: ResolvedRun, work: Work, sample: BenchmarkSample, questions: Sequence[Item]
) -> CallCounts:
    """Count the calls for some questions, and scale the counts to the sample."""
    arms = Counter[str | None](dict.fromkeys((part.arm for part in work.design.parts), 0))
    prepared, answered = Counter[str](), Counter[str]()
    for arm, request in _requests(resolved.audit, work, questions):
        arms[arm] += 1
        chars = len(request.system + request.prompt) + sum(map(len, request.continuations))
        scored = request.continuations or request.letters or request.pieces
        sums = prepared if arm is None else answered
        sums.update(chars=chars, generated=0 if scored else request.max_tokens)
    scale = sample.sample.n / max(1, len(questions))
    counts = {arm: round(scale * n) for arm, n in arms.items() if arm is not None}
    calls = round(scale * arms[None])
    before, answers = _tokens(prepared, scale), _tokens(answered, scale)
    both = Tokens(before.prompt + answers.prompt, before.generated + answers.generated)
    other = resolved.answering[work.model]
    tokens = {work.model: both}
    if other.name != work.model:
        tokens = {work.model: before, other.name: answers}
    models = {other.name: other, work.model: resolved.config.model[work.model]}
    cost = planned_cost(resolved.config.cost, tokens, models)
    planned = PlannedCalls(
        work.model, sample.benchmark.name, calls + sum(counts.values()), both, cost
    )
    return CallCounts(planned, sample.sample.n, counts, calls, tokens)


def _tokens(sums: Mapping[str, int], scale: float) -> Tokens:
    return Tokens(int(scale * sums["chars"] / CHARS_PER_TOKEN), round(scale * sums["generated"]))


def _requests(
    audit: Audit, work: Work, questions: Sequence[Item]
) -> Iterator[tuple[str | None, GenerationRequest]]:
    """Yield (arm, call) for every call. The arm is None for calls before the answer.

    A reply before the answer is assumed to be as long as the question, but not longer than its
    limit.
    """
    for question in questions:
        text = question.text + " ".join(question.options)
        for part in work.design.parts:
            replies: list[Generation] = []
            prepared = audit.prepare(work, question, part, replies) if audit.prepare else []
            while prepared and audit.prepare:
                for request in prepared:
                    yield None, request
                    length = int(request.max_tokens * CHARS_PER_TOKEN)
                    replies.append(Generation(text=text[:length]))
                prepared = audit.prepare(work, question, part, replies)
            presentations = audit.present(work, question, part, replies)
            requests: list[GenerationRequest] = []
            for setting, presentation in zip(part.settings, presentations, strict=True):
                if presentation.error is None:
                    requests += answer_requests(work, question, setting, presentation)
            for request in dict.fromkeys(requests):
                yield part.arm, request


def announced(resolved: ResolvedRun) -> list[str]:
    """Return a line with calls and cost for each model and benchmark of a run.

    Only models of endpoints count: the list is empty if the run has no endpoint.
    """
    engines = set()
    for name, model in resolved.config.model.items():
        engines |= {model.engine, resolved.answering[name].engine}
    if "openai" not in engines:
        return []
    lines = []
    for counts in dry_run(resolved):
        plan = counts.planned
        lines.append(f"{plan.model} on {plan.benchmark}: {in_one_line([(plan, 1.0)])}")
    return lines


def shortfall(resolved: ResolvedRun, needed: int | None, fewer: str = "") -> str:
    """Return a note if a design has fewer questions than its plan needs, else an empty text.

    Parameters
    ----------
    resolved : ResolvedRun
        The run, with pinned benchmarks, prompts and models.
    needed : int or None
        Number of questions that a verdict needs. None if no number is enough.
    fewer : str
        A remark in brackets that states when fewer questions would be enough.

    Returns
    -------
    str
        The note, as a line, or "".
    """
    first = resolved.samples[0]
    name, n, available = first.benchmark.name, first.sample.n, first.sample.n_distinct
    if needed is not None and n >= needed:
        return ""
    enough = "no number" if needed is None else f"about {needed:,}"
    advice = f"{name} has {available:,} in all"
    if needed is not None and available >= needed:
        advice = f"type n={needed}"
    return (
        f"{n:,} questions of {name} are likely too few for a verdict: {enough} would find or "
        f"exclude the smallest effect that matters{fewer}; {advice}."
    )


def reach(
    resolved: ResolvedRun, counts: Sequence[CallCounts], needed: int | None, fewer: str = ""
) -> list[str]:
    """Return the command and the cost of a run that is large enough for a verdict.

    If the benchmark has too few questions for a verdict, return a note that states this.

    Parameters
    ----------
    resolved : ResolvedRun
        The run, with pinned benchmarks, prompts and models.
    counts : sequence of CallCounts
        The calls of the run.
    needed : int or None
        Number of questions that a verdict needs. None if no number is enough.
    fewer : str
        A remark in brackets that states when fewer questions would be enough.

    Returns
    -------
    list of str
        The lines to print.
    """
    config, first = resolved.config, resolved.samples[0].sample
    if needed is None:
        return [shortfall(resolved, needed, fewer)]
    if first.n_distinct < needed:
        return [f"{shortfall(resolved, needed, fewer)} Take a larger benchmark."]
    n = max(needed, first.n)
    shares = {s.benchmark.name: min(n, s.sample.n_distinct) / s.sample.n for s in resolved.samples}
    words = [word for word in config.typed or () if not word.startswith(("plan=", "n="))]
    command = shlex.join(["audit", resolved.audit.name, *words, f"n={n}"])
    cost = in_one_line([(each.planned, shares[each.planned.benchmark]) for each in counts])
    return [f"To reach a verdict: {command}", f"  {cost}"]


def planned_facts(counts: CallCounts) -> dict[str, Any]:
    """Return the planned calls, tokens and cost as a dict."""
    return asdict(counts.planned)


@dataclass(frozen=True)
class Planned:
    """Hold a planned run.

    Attributes
    ----------
    resolved : ResolvedRun
        The run, with pinned benchmarks, prompts and models.
    describe : Callable
        Returns the lines of the plan for people.
    facts : Callable
        Returns the facts about one model and benchmark as a dict, for programs.
    """

    resolved: ResolvedRun
    describe: Callable[[Sequence[CallCounts]], Sequence[str]]
    facts: Callable[[CallCounts], Mapping[str, Any]] = planned_facts

    def show(self, engines: Mapping[str, str] = MappingProxyType({})) -> int:
        """Print the plan, for people or for programs.

        Parameters
        ----------
        engines : mapping
            Maps each model to a line, which states the memory of its engine, and whether the engine
            fits on the GPUs.

        Returns
        -------
        int
            Exit code 1 if a model cannot run, else 0.
        """
        run = self.resolved
        counts, path, failed = dry_run(run), run.path, run.failed
        if run.config.plan == "json":
            content = {
                "run_dir": named(path),
                "failed": failed,
                "engines": dict(engines),
                "plans": [self.facts(each) for each in counts],
            }
            print(json.dumps(plain(content), indent=1))
            return 1 if failed else 0
        resumed = "  (exists: it would be resumed)" if (path / MANIFEST).exists() else ""
        print(f"run directory  {named(path)}{resumed}")
        for sample in run.samples:
            for warning in sample.benchmark.warnings:
                say(f"note: {sample.benchmark.name}: {warning}")
        report = [f"{name}: cannot run: {reason}" for name, reason in failed.items()]
        print(*report, *self.describe(counts), sep="\n")
        print(*engines.values(), sep="\n", end="\n" if engines else "")
        return 1 if failed else 0

    def counts(self) -> list[CallCounts]:
        """Return the calls of each model.

        Raises EngineError if a model cannot run, because a sum without this model would look
        complete.
        """
        failed = self.resolved.failed
        if failed:
            raise EngineError("; ".join(f"{name}: {reason}" for name, reason in failed.items()))
        return dry_run(self.resolved)


def planned_answers(resolved: ResolvedRun, needed: int | None) -> Planned:
    """Return the plan of an audit that makes no calls before the answers.

    Parameters
    ----------
    resolved : ResolvedRun
        The run, with pinned benchmarks, prompts and models.
    needed : int or None
        Number of questions that a verdict needs. None if no number is enough.

    Returns
    -------
    Planned
        The plan.
    """

    def describe(counts: Sequence[CallCounts]) -> list[str]:
        lines = chain.from_iterable(each.planned.lines() for each in counts)
        return [*lines, *reach(resolved, counts, needed)]

    return Planned(resolved, describe)
