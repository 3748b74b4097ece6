"""`python -m audit.plan <the sweep's overrides>`: what a sweep would do, and whether it could find anything.

Prints the number of calls, an estimate of tokens, the run directory and the minimum detectable gain. Starts nothing.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import hydra
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from audit.config import CONF_DIR, SweepConfig, design_of, from_hydra, protocol_of, reading_of, register, worker_of
from audit.design import Design
from audit.errors import AuditError
from audit.prompting.prompts import direct_prompt, router_prompt, worker_prompt
from audit.prompting.templates import load_protocol
from audit.records import Arm, Draws, Question, Reading
from audit.statistics.power import GAIN_OF_INTEREST, TARGET_POWER, minimum_detectable_gain

register()

CHARS_PER_TOKEN = 4.0  # of English text; tokenizers differ by a fifth or so
PLANNED_DISCORDANCE = 0.20  # song2026, Table 2: (improve + degrade) / n has a median of 0.2 over its 108 cells
_SHOWN_QUESTIONS = 50


@dataclass(frozen=True)
class Plan:
    """Calls and estimated tokens of one model's sweep, and what it can detect. Tokens are before any prefix caching."""

    questions: int
    settings: int
    rows: int
    router_calls: int
    worker_calls: int
    prompt_tokens: int
    generated_tokens_at_most: int
    minimum_detectable_gain: float  # accuracy, 0-1; NaN where no gain reaches the power


def make_plan(config: SweepConfig, name: str, design: Design, questions: list[Question], n: int) -> Plan:
    """Estimate one model's sweep from its design and some of the questions (pure)."""
    model = config.model[name]
    answering = worker_of(config, model)
    protocol = load_protocol(protocol_of(config, model))
    reading = reading_of(config, answering)
    prompt_chars = generated = 0.0
    for part in design.sets:
        # A message is taken to be as long as the question, or as the limit where that is shorter.
        for question in questions:
            limit = model.router.max_tokens * CHARS_PER_TOKEN
            if part.arm == Arm.DIRECT:
                prompt_chars += len(direct_prompt(protocol, question, reading))
                continue
            routed = router_prompt(protocol, question, part.arm)
            text = question.text + " ".join(question.options)
            message = text[: int(limit)]
            prompt_chars += part.n_messages * len(routed)
            for r in part.routers:
                prompt_chars += len(worker_prompt(protocol, [message] * r, len(question.options), reading))
        generated += part.n_messages * (part.arm != Arm.DIRECT) * model.router.max_tokens
        generated += len(part.routers) * (answering.worker.max_tokens if reading == Reading.LETTER else 0)
    noisy = {s.routers for s in design.settings if s.arm == Arm.NOISY_REWRITE}
    calls = sum(part.n_messages for part in design.sets if part.arm != Arm.DIRECT)
    return Plan(
        questions=n,
        settings=len(design.settings),
        rows=n * len(design.settings),
        router_calls=n * calls,
        worker_calls=n * len(design.settings),
        prompt_tokens=int(prompt_chars / max(1, len(questions)) * n / CHARS_PER_TOKEN),
        generated_tokens_at_most=int(generated * n),
        minimum_detectable_gain=minimum_detectable_gain(n, PLANNED_DISCORDANCE, n_tests=max(1, len(noisy))),
    )


def describe(plan: Plan, design: Design) -> list[str]:
    """The plan in lines a person reads, the warning last."""
    saved = ""
    if design.draws == Draws.INDEPENDENT:
        saved = " (draws=nested would reuse router messages across r)"
    lines = [
        f"  questions          {plan.questions:>12,}",
        f"  settings           {plan.settings:>12,}",
        f"  rows               {plan.rows:>12,}",
        f"  router calls       {plan.router_calls:>12,}{saved}",
        f"  worker calls       {plan.worker_calls:>12,}",
        f"  prompt tokens      {plan.prompt_tokens:>12,}  estimated, before prefix caching",
        f"  generated tokens   {plan.generated_tokens_at_most:>12,}  at most",
    ]
    mde = plan.minimum_detectable_gain
    basis = f"power {TARGET_POWER:.0%}, {PLANNED_DISCORDANCE:.0%} of items changing, corrected for the router counts"
    if mde != mde:  # NaN
        lines.append(f"  WARNING: with n={plan.questions} no gain at all can be detected ({basis}).")
    else:
        lines.append(f"  detectable gain    {100 * mde:>11.1f}%  points of accuracy ({basis})")
        if mde > GAIN_OF_INTEREST:
            lines.append(
                f"  WARNING: this design cannot detect a gain of {100 * GAIN_OF_INTEREST:.0f} points. "
                "A model with one would be called underpowered, not clean: raise n, or test fewer router counts."
            )
    return lines


@hydra.main(version_base="1.3", config_path=str(CONF_DIR), config_name="sweep")
def main(cfg: DictConfig) -> None:
    """Hydra's entry."""
    try:
        sys.exit(_print_plan(from_hydra(cfg)))
    except (AuditError, OmegaConfBaseException) as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        sys.exit(1)


def _print_plan(config: SweepConfig) -> int:
    from audit.runtime.run import resolve_run  # resolves names and revisions; starts no engine

    resolved = resolve_run(config)
    design = design_of(config)
    print(f"run directory  {resolved.path}{'  (exists: it would be resumed)' if resolved.path.exists() else ''}")
    for name, why in resolved.failed.items():
        print(f"{name}: cannot run: {why}")
    for name in config.model:
        for one in resolved.samples:
            some = [q for q, _ in zip(one.questions(), range(_SHOWN_QUESTIONS), strict=False)]
            print(f"{name} on {one.benchmark.name}, prompts {protocol_of(config, config.model[name])['name']}")
            print("\n".join(describe(make_plan(config, name, design, some, one.sample.n), design)))
    return 1 if resolved.failed else 0


if __name__ == "__main__":
    main()
