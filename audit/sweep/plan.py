"""What a sweep would do, and whether it could find anything: calls, tokens, the minimum detectable gain (pure)."""

from __future__ import annotations

from dataclasses import dataclass

from audit.config import protocol_of, reading_of
from audit.engines.config import price_lines
from audit.prompting.prompts import direct_prompt
from audit.prompting.templates import load_protocol
from audit.records import Design, Question, Reading
from audit.statistics.permutation import can_reject
from audit.statistics.power import minimum_detectable_gain
from audit.sweep.config import TEMPLATES, SweepConfig, worker_of
from audit.sweep.design import Arm, Draws, missing_controls, n_messages
from audit.sweep.present import router_prompt, worker_prompt
from audit.sweep.thresholds import SweepThresholds

CHARS_PER_TOKEN = 4.0  # of English text; tokenizers differ by a fifth or so
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
    router_tokens: tuple[int, int]  # prompt, and generated at most
    worker_tokens: tuple[int, int]
    router_counts: int
    panel: int
    cost: tuple[str, ...]  # what it says of money; empty where prices are not configured
    minimum_detectable_gain: float  # accuracy, 0-1; NaN where no gain reaches the power


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
    chars = {"router": 0.0, "worker": 0.0}
    generated = {"router": 0, "worker": 0}
    for part in design.parts:
        # A message is taken to be as long as the question, or as the limit where that is shorter.
        for question in questions:
            limit = model.router.max_tokens * CHARS_PER_TOKEN
            if part.arm == Arm.DIRECT:
                chars["worker"] += len(direct_prompt(protocol, question, reading))
                continue
            routed = router_prompt(protocol, question, part.arm)
            text = question.text + " ".join(question.options)
            message = text[: int(limit)]
            chars["router"] += n_messages(part) * len(routed)
            for r in part.levels:
                chars["worker"] += len(worker_prompt(protocol, [message] * r, len(question.options), reading))
        generated["router"] += n_messages(part) * (part.arm != Arm.DIRECT) * model.router.max_tokens
        generated["worker"] += len(part.levels) * (answering.worker.max_tokens if reading == Reading.LETTER else 0)
    counts = max(1, len({s.level for s in design.settings if s.arm == Arm.NOISY_REWRITE}))
    groups = n if groups is None else groups
    level = thresholds.alpha / SIDES
    detectable = float("nan")
    if can_reject(groups, level / panel):
        detectable = minimum_detectable_gain(
            n, PLANNED_DISCORDANCE, alpha=level, n_tests=counts * panel, power=thresholds.power
        )
    calls = sum(n_messages(part) for part in design.parts if part.arm != Arm.DIRECT)
    scale = n / max(1, len(questions)) / CHARS_PER_TOKEN
    tokens = {role: (int(chars[role] * scale), generated[role] * n) for role in chars}
    return Plan(
        questions=n,
        groups=groups,
        settings=len(design.settings),
        rows=n * len(design.settings),
        router_calls=n * calls,
        worker_calls=n * len(design.settings),
        router_tokens=tokens["router"],
        worker_tokens=tokens["worker"],
        router_counts=counts,
        panel=panel,
        cost=tuple(price_lines([(model, *tokens["router"]), (answering, *tokens["worker"])])),
        minimum_detectable_gain=detectable,
    )


def early_lines(saving: list[str]) -> list[str]:
    """What stop=early would save, as `audit.calibrate_early.expected` has it."""
    head = "  stop=early would ask (simulated, three clean runs, no groups, looks every 100; docs/early_stopping.md)"
    return [head, *(f"    {line}" for line in saving)]


def describe(plan: Plan, design: Design, thresholds: SweepThresholds) -> list[str]:
    """The plan in lines a person reads, the warning last."""
    saved = ""
    if design.kind == Draws.INDEPENDENT:
        saved = " (draws=nested would reuse router messages across r)"
    return [
        f"  questions          {plan.questions:>12,}",
        f"  settings           {plan.settings:>12,}",
        f"  rows               {plan.rows:>12,}",
        f"  router calls       {plan.router_calls:>12,}{saved}",
        f"  worker calls       {plan.worker_calls:>12,}",
        f"  prompt tokens      {plan.router_tokens[0] + plan.worker_tokens[0]:>12,}  estimated, before prefix caching",
        f"  generated tokens   {plan.router_tokens[1] + plan.worker_tokens[1]:>12,}  at most",
        *plan.cost,
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
            f"A model with one would likely be called underpowered: raise n, or {fewer}."
        )
    return lines


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
