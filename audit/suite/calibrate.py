"""Simulate the error rates of a whole suite.

    audit calibrate audit=suite --out audit/data/calibration_suite.json --force      # the table that ships

All audits of the suite judge each simulated model, with the same code as for real models. The table
counts how often each combination of the audits' verdicts occurs. From these counts follow the error
rates of any suite of these audits (`audit.judging.forms`).

The gates (checks of the measurement) are left out, because they look for faults that a simulation
does not have. The validity audit makes no statement about memory, so its error rates are simulated
separately (`audit calibrate audit=validity`).
"""

from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import chain, product, starmap
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
# Each simulated model is judged once with each of these numbers of references. A larger number adds
# references to those of the smaller numbers.
REFERENCES = (3, 5, 8)
RESAMPLES = 199
SHIPPED = (SuiteDesign(),)


def judge(
    design: SuiteDesign,
    world: World,
    rng: np.random.Generator,
    references: Sequence[int] = REFERENCES,
) -> list[str]:
    """Simulate and judge one model.

    Parameters
    ----------
    design : SuiteDesign
        Sizes of the suite.
    world : World
        Scenario: what the simulated model remembers of the items.
    rng : numpy.random.Generator
        Source of the answers.
    references : sequence of int
        Numbers of references with which the model is judged. The sweep has no references and is
        judged once.

    Returns
    -------
    list of str
        One string for each number of references. The k-th letter of a string is the code of the
        outcome of the k-th audit of AUDITS.
    """
    model = simulate(design, world, rng)
    _, (routed,) = sweep.decided([RoutedModel(model.sweep)], design.routers, rng, RESAMPLES)
    words = []
    for count in references:
        cells = model.with_references(count)
        reworded = perturb.decision_of(cells.perturb, rng)
        read = memory.decision_of(cells.memory, rng)
        words.append(LETTERS[routed.grade] + LETTERS[reworded.grade] + LETTERS[read.grade])
    return words


def procedures(
    options: Namespace,
    designs: Sequence[SuiteDesign] = SHIPPED,
    worlds: Sequence[str] = tuple(WORLDS),
    references: Sequence[int] = REFERENCES,
) -> tuple[Procedure, ...]:
    """Return the simulation that counts combinations of outcomes of the audits in AUDITS.

    Parameters
    ----------
    options : Namespace
        Arguments of `audit calibrate`.
    designs : sequence of SuiteDesign
        Sizes of the suites.
    worlds : sequence of str
        Names in WORLDS.
    references : sequence of int
        Numbers of reference models. The table has an entry for each number.

    Returns
    -------
    tuple of Procedure
        A single procedure.
    """
    simulations = options.simulations or SIMULATIONS
    thresholds = {
        "sweep": SweepThresholds().to_dict(),
        "perturb": PerturbThresholds().to_dict(),
        "memory": MemoryThresholds().to_dict(),
    }

    def entries(case: Case, judged: Sequence[Sequence[Any]]) -> list[Entry]:
        rows: list[Entry] = []
        for count, letters in zip(references, zip(*chain(*judged), strict=True), strict=True):
            design = asdict(replace(case.design, references=count))
            counts = dict(sorted(Counter(letters).items()))
            rows.append({"design": design, "counts": {case.name: counts}})
        return rows

    def case(design: SuiteDesign, name: str) -> Case:
        return Case(design, name, WORLDS[name], streams(options.seed, design, name, simulations))

    procedure = Procedure(
        cases=list(starmap(case, product(designs, worlds))),
        judge=partial(judge, references=references),
        entries=entries,
        table=markdown,
        head={"simulations": simulations, "thresholds": thresholds},
    )
    return (procedure,)


def markdown(entries: Entries) -> str:
    """Return the table for the documentation, in per cent of models with 95 % intervals.

    The columns are the shares of models with a finding by each audit, of models with a finding by
    any audit, and of models that pass. A finding is a verdict that reports memory.
    """
    head = ["world", "references", *(f"{audit} finds" for audit in AUDITS), "any finding"]
    head += ["passes perturb", "passes perturb and memory", "passes all three"]
    rows = []
    for name in entries[0]["counts"]:
        for entry in entries:
            counts = entry["counts"][name]
            row = [name.replace("_", " "), entry["design"]["references"]]
            row += [any_found(counts, [audit]) for audit in AUDITS]
            row.append(any_found(counts, AUDITS))
            row.append(all_cleared(counts, ["perturb"]))
            row.append(all_cleared(counts, ["perturb", "memory"]))
            row.append(all_cleared(counts, AUDITS))
            rows.append(list(map(str, row)))
    return table_text(head, rows)
