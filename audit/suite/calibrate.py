"""How often is a whole suite wrong? One simulated model through all of its audits, with their real
decisions.

    audit calibrate audit=suite --out audit/data/calibration_suite.json      # the table that ships

What the audits say of one model together is counted, so the rates of any suite of them follow
(`audit.judging.forms`). The gates, which look for faults that a simulation does not have, are
bypassed, as in each audit's own calibration. Validity makes no claim about memory: its error is its
own (`audit calibrate audit=validity`)."""

from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from audit.judging.forms import AUDITS, LETTERS, all_cleared, any_found
from audit.judging.simulated import Case, Entries, Entry, Procedure, streams, table_text
from audit.judging.world import World
from audit.memory import calibrate as memory
from audit.memory.design import MemoryThresholds
from audit.perturb import calibrate as perturb
from audit.perturb.design import PerturbThresholds
from audit.suite.worlds import WORLDS, SuiteDesign, simulate
from audit.sweep import calibrate as sweep
from audit.sweep.design import SweepThresholds
from audit.sweep.simulation import Simulated as RoutedModel

SIMULATIONS = 200
REFERENCES = (
    3,
    5,
    8,
)  # each simulated model is judged with so many: the first three are among the first five
RESAMPLES = 199
SHIPPED = (SuiteDesign(),)


def judge(
    design: SuiteDesign,
    world: World,
    rng: np.random.Generator,
    references: Sequence[int] = REFERENCES,
) -> list[str]:
    """One model: for each number of references the letters of AUDITS. The sweep has none and is
    judged once."""
    model = simulate(design, world, rng)
    _, (first,) = sweep.decided([RoutedModel(model.sweep)], design.routers, rng, RESAMPLES)
    some = [model.with_references(count) for count in references]
    return [
        "".join(
            LETTERS[one.grade]
            for one in (
                first,
                perturb.decision_of(m.perturb, rng),
                memory.decision_of(m.memory, rng),
            )
        )
        for m in some
    ]


def procedures(
    options: Namespace,
    designs: Sequence[SuiteDesign] = SHIPPED,
    worlds: Sequence[str] = tuple(WORLDS),
    references: Sequence[int] = REFERENCES,
) -> tuple[Procedure, ...]:
    """For each number of references how many models of each world had which letters of AUDITS."""
    simulations = options.simulations or SIMULATIONS
    thresholds = {
        "sweep": SweepThresholds(),
        "perturb": PerturbThresholds(),
        "memory": MemoryThresholds(),
    }

    def entries(case: Case, found: Sequence[Sequence[Any]]) -> list[Entry]:
        letters = zip(*chain(*found), strict=True)
        counts = [{case.name: dict(sorted(Counter(some).items()))} for some in letters]
        designs = [asdict(replace(case.design, references=count)) for count in references]
        return [{"design": d, "counts": c} for d, c in zip(designs, counts, strict=True)]

    def case(design: SuiteDesign, name: str) -> Case:
        return Case(design, name, WORLDS[name], streams(options.seed, design, name, simulations))

    procedure = Procedure(
        cases=[case(design, name) for design in designs for name in worlds],
        judge=partial(judge, references=references),
        entries=entries,
        table=markdown,
        head={
            "simulations": simulations,
            "thresholds": {name: one.to_dict() for name, one in thresholds.items()},
        },
    )
    return (procedure,)


def markdown(entries: Entries) -> str:
    """The table of the documentation, per cent [95 % interval]: what each audit finds, what any
    finds, what passes."""
    head = ["world", "references", *(f"{audit} finds" for audit in AUDITS), "any finding"]
    head += ["passes perturb", "passes perturb and memory", "passes all three"]
    rows = []
    for name in entries[0]["counts"]:
        for entry in entries:
            counts = entry["counts"][name]
            found = [
                str(any_found(counts, one)) for one in (*([audit] for audit in AUDITS), AUDITS)
            ]
            passed = [
                str(all_cleared(counts, some))
                for some in (["perturb"], ["perturb", "memory"], AUDITS)
            ]
            rows.append(
                [name.replace("_", " "), str(entry["design"]["references"]), *found, *passed]
            )
    return table_text(head, rows)
