"""What a sweep would do, and whether it could find anything: calls, tokens, the minimum detectable gain (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from audit.config import protocol_of, reading_of
from audit.plan_cost import (
    CHARS_PER_TOKEN,
    PlannedCalls,
    Tokens,
    head_lines,
    planned_cost,
    print_plan,
    refuse_failed,
    token_lines,
)
from audit.prompting.prompts import direct_prompt
from audit.prompting.templates import load_protocol
from audit.records import Design, Question, Reading
from audit.resolve import resolve_run
from audit.statistics.permutation import can_reject
from audit.statistics.power import minimum_detectable_gain, questions_needed
from audit.sweep.audit import SWEEP
from audit.sweep.calibrate_early import SHIPPED, expected
from audit.sweep.config import TEMPLATES, SweepConfig, worker_of
from audit.sweep.design import Arm, Draws, missing_controls, n_messages
from audit.sweep.present import router_prompt, worker_prompt
from audit.sweep.thresholds import SweepThresholds
from audit.verdict.shipped import shipped_table

SHOWN_QUESTIONS = 50  # of which a plan takes the lengths
PLANNED_DISCORDANCE = 0.20  # song2026, Table 2: (improve + degrade) / n has a median of 0.2 over its 108 cells
SIDES = 2  # an excess is tested one-sided at alpha / 2: its two-sided interval must lie above zero too


@dataclass(frozen=True)
class Plan:
    """Calls and estimated tokens of one model's sweep, and what it can detect. Tokens are before any prefix caching.

    groups: of questions that resampling keeps together (subject, passage); as many as questions where there are none.
    router_counts, panel: the tests of a cell, and the cells of the run that are corrected for together.
    """

    questions: int
    groups: int
    settings: int
    rows: int
    router_calls: int
    worker_calls: int
    prompt_tokens: int
    generated_tokens_at_most: int
    router_counts: int
    panel: int
    minimum_detectable_gain: float  # accuracy, 0-1; NaN where no gain reaches the power
    questions_needed: int  # to detect a gain of the effect of interest
    tokens: Mapping[str, Tokens]  # by the name of the model that is called


def make_plan(
    config: SweepConfig,
    name: str,
    design: Design,
    questions: list[Question],
    n: int,
    *,
    thresholds: SweepThresholds,
    groups: int | None = None,
    panel: int = 1,
) -> Plan:
    """Estimate one model's sweep from its design and some of the questions (pure).

    n, groups: questions of the whole sample, and their groups (None: every question its own). panel: cells of the run.
    """
    model = config.model[name]
    answering = worker_of(config, model)
    protocol = load_protocol(protocol_of(config, model), TEMPLATES)
    reading = reading_of(config, answering)
    prompt_chars = answer_chars = generated = answered = 0.0
    for part in design.parts:
        # A message is taken to be as long as the question, or as the limit where that is shorter.
        for question in questions:
            limit = model.preparing.max_tokens * CHARS_PER_TOKEN
            if part.arm == Arm.DIRECT:
                answer_chars += len(direct_prompt(protocol, question, reading))
                continue
            routed = router_prompt(protocol, question, part.arm)
            text = question.text + " ".join(question.options)
            message = text[: int(limit)]
            prompt_chars += n_messages(part) * len(routed)
            for r in part.levels:
                answer_chars += len(worker_prompt(protocol, [message] * r, len(question.options), reading))
        generated += n_messages(part) * (part.arm != Arm.DIRECT) * model.preparing.max_tokens
        answered += len(part.levels) * (answering.worker.max_tokens if reading == Reading.LETTER else 0)
    counts = max(1, len({s.level for s in design.settings if s.arm == Arm.NOISY_REWRITE}))
    groups = n if groups is None else groups
    level = thresholds.alpha / SIDES
    detectable = float("nan")
    if can_reject(groups, level / panel):
        detectable = minimum_detectable_gain(
            n, PLANNED_DISCORDANCE, alpha=level, n_tests=counts * panel, power=thresholds.power
        )
    scale = n / max(1, len(questions)) / CHARS_PER_TOKEN
    routing = Tokens(int(prompt_chars * scale), int(generated * n))
    replying = Tokens(int(answer_chars * scale), int(answered * n))
    both = Tokens(routing.prompt + replying.prompt, routing.generated + replying.generated)
    calls = sum(n_messages(part) for part in design.parts if part.arm != Arm.DIRECT)
    return Plan(
        questions=n,
        groups=groups,
        settings=len(design.settings),
        rows=n * len(design.settings),
        router_calls=n * calls,
        worker_calls=n * len(design.settings),
        prompt_tokens=both.prompt,
        generated_tokens_at_most=both.generated,
        router_counts=counts,
        panel=panel,
        minimum_detectable_gain=detectable,
        questions_needed=questions_needed(
            thresholds.effect_of_interest,
            PLANNED_DISCORDANCE,
            alpha=level,
            n_tests=counts * panel,
            power=thresholds.power,
        ),
        tokens={name: both} if answering is model else {name: routing, answering.name: replying},
    )


def show(config: SweepConfig) -> int:
    """Print the plan of every model on every benchmark; the exit code."""
    resolved = resolve_run(SWEEP, config)
    design = resolved.design
    thresholds = SweepThresholds.from_mapping(config.verdict)
    panel = len(config.model) * len(resolved.samples)
    groups = {one.benchmark.name: len({q.group for q in one.questions()}) for one in resolved.samples}
    table = shipped_table(SHIPPED)
    told: list[dict[str, Any]] = []
    lines = head_lines(resolved.path, resolved.failed)
    for name, model in config.model.items():
        for one in resolved.samples:
            some = list(islice(one.questions(), SHOWN_QUESTIONS))
            plan = make_plan(
                config, name, design, some, one.sample.n,
                thresholds=thresholds, groups=groups[one.benchmark.name], panel=panel,
            )  # fmt: skip
            other = worker_of(config, model)
            cost = planned_cost(config.cost, plan.tokens, {name: model, other.name: other})
            told.append({"model": name, "benchmark": one.benchmark.name, **asdict(plan), "cost": asdict(cost)})
            lines.append(f"{name} on {one.benchmark.name}, prompts {protocol_of(config, model)['name']}")
            lines += describe(plan, design, thresholds, cost.lines())
            if one.sample.n_distinct < plan.questions_needed:
                lines.append(f"  NOTE: {one.benchmark.name} has {one.sample.n_distinct:,} distinct questions in all.")
            if table:
                lines += early_lines(expected(one.sample.n, plan.router_counts, table))
    return print_plan(config.plan, resolved.path, resolved.failed, lines, told)


def planned_calls(config: SweepConfig) -> list[PlannedCalls]:
    """What the sweep would ask of each model. Raises AuditError, as the sweep would; starts nothing."""
    resolved = resolve_run(SWEEP, config)
    refuse_failed(resolved.failed)
    thresholds, found = SweepThresholds.from_mapping(config.verdict), []
    for name, model in config.model.items():
        other = worker_of(config, model)
        for one in resolved.samples:
            some = list(islice(one.questions(), SHOWN_QUESTIONS))
            plan = make_plan(config, name, resolved.design, some, one.sample.n, thresholds=thresholds)
            cost = planned_cost(config.cost, plan.tokens, {name: model, other.name: other})
            tokens = Tokens(plan.prompt_tokens, plan.generated_tokens_at_most)
            calls = plan.router_calls + plan.worker_calls
            found.append(PlannedCalls(name, one.benchmark.name, calls, tokens, cost))
    return found


def early_lines(saving: list[str]) -> list[str]:
    """What stop=early would save, as `audit.sweep.calibrate_early.expected` has it."""
    head = "  stop=early would ask (simulated, three clean runs, no groups, looks every 100; docs/early_stopping.md)"
    return [head, *(f"    {line}" for line in saving)]


def describe(plan: Plan, design: Design, thresholds: SweepThresholds, cost: Sequence[str] = ()) -> list[str]:
    """The plan in lines a person reads, the warning last. cost: `PlannedCost.lines`."""
    saved = ""
    if design.kind == Draws.INDEPENDENT:
        saved = " (draws=nested would reuse router messages across r)"
    return [
        f"  questions          {plan.questions:>12,}",
        f"  settings           {plan.settings:>12,}",
        f"  rows               {plan.rows:>12,}",
        f"  router calls       {plan.router_calls:>12,}{saved}",
        f"  worker calls       {plan.worker_calls:>12,}",
        *token_lines(Tokens(plan.prompt_tokens, plan.generated_tokens_at_most), cost),
        *(f"  NOTE: {text}" for text in missing_controls(design)),
        *_detectable(plan, thresholds),
    ]


def _detectable(plan: Plan, thresholds: SweepThresholds) -> list[str]:
    mde = plan.minimum_detectable_gain
    few = f"{plan.groups:,} groups" if plan.groups < plan.questions else f"n={plan.questions}"
    tests = _count(plan.router_counts, "router count") + (f" x {_count(plan.panel, 'cell')}" if plan.panel > 1 else "")
    basis = f"power {thresholds.power:.0%}, {PLANNED_DISCORDANCE:.0%} of items changing, corrected for {tests}"
    if mde != mde:  # NaN
        return [f"  WARNING: with {few} no gain at all can be detected ({basis})."]
    lines = [
        f"  questions needed   {plan.questions_needed:>12,}  to detect a gain of "
        f"{100 * thresholds.effect_of_interest:.0f} points{_too_few(plan)}",
        f"  detectable gain    {100 * mde:>11.1f}%  points of accuracy ({basis})",
        "    This is for the comparison with the clean baseline alone. An excess must also pass the controls (direct,",
        "    ensemble); to detect a gain against all of them needs more questions.",
    ]
    if plan.groups < plan.questions:
        lines += [
            f"    The questions come in {plan.groups:,} groups (subject, passage). Questions of one group count for",
            "    less than independent ones, so the detectable gain is larger; the verdict measures by how much.",
        ]
    if mde > thresholds.effect_of_interest:
        fewer = "test fewer router counts" + (", or fewer models and benchmarks at once" if plan.panel > 1 else "")
        lines.append(
            f"  WARNING: this design cannot detect a gain of {100 * thresholds.effect_of_interest:.0f} points. "
            f"A model with one would likely be called underpowered: raise n to {plan.questions_needed:,}, or {fewer}."
        )
    return lines


def _too_few(plan: Plan) -> str:
    return "; see below on groups" if plan.groups < plan.questions else ""


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
