"""Write outcomes on original and reworded items as a run of a perturbation audit.

The run also contains a library of the rewordings.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from audit.benchmarks.rows import text_key
from audit.config.references import IMPORTED, JOINED_MIN
from audit.core.errors import DataError
from audit.core.records import Item
from audit.imports.join import Joined
from audit.imports.write import RunFacts, digest, each_trial, questions_of, row, save
from audit.perturb.audit import SCHEMA
from audit.perturb.design import Arm, PerturbThresholds
from audit.variants.arrow import FILE, write_library
from audit.variants.record import (
    Header,
    Library,
    ModelRef,
    State,
    Variant,
    question_sha256,
    questions_sha256,
)

REWORDED = "reworded: "  # prefix of the name that the benchmark gets in a log of reworded items


def write_reworded(run_dir: Path, joined: Joined, facts: RunFacts) -> None:
    """Write a run with the answers to original items and to their rewordings.

    If an item has several trials, one trial is drawn at random.

    Parameters
    ----------
    run_dir : Path
        Directory of the run.
    joined : Joined
        The outcomes of all logs. The names of the benchmarks with rewordings begin with `REWORDED`.
    facts : RunFacts
        The facts about the import that the run records.

    Raises
    ------
    DataError
        If originals and rewordings cannot be matched.
    """
    names = sorted(name for name in joined.items if name.startswith(REWORDED))
    _check(joined, facts.benchmark, names)
    questions = []
    for published in questions_of(joined, facts.benchmark):
        questions.append(replace(published, order=tuple(range(len(published.options)))))
    library = _library(joined, facts.benchmark, names, questions)
    settings = []
    for level in range(len(names) + 1):
        settings.append({"arm": _arm(level), "level": level, "replicate": 0})
    save(
        run_dir,
        SCHEMA,
        joined,
        facts,
        questions=questions,
        audit_options={"variants": library.sha256, "num_variants": len(names)},
        analysis={"thresholds": PerturbThresholds().to_dict()},
        settings=settings,
        rows=lambda model: _rows(model, joined, questions, names, facts.seed),
        also=lambda path: write_library(library, path / FILE),
    )


def _arm(level: int) -> str:
    return (Arm.VARIANT if level else Arm.ORIGINAL).value


def _check(joined: Joined, benchmark: str, names: Sequence[str]) -> None:
    originals = joined.items[benchmark]
    n = len(originals)
    for (model, name), answers in joined.answers.items():
        answered = len(originals.keys() & answers.keys())
        if name in names and answered < JOINED_MIN * n:
            raise DataError(
                f"{name} has {answered:,} of the {n:,} items of {benchmark} for {model}; "
                f"expected {JOINED_MIN:.0%}. Name the field whose value is the same in both logs. "
                "Example: --key audit_id"
            )
    for name in names:
        same = with_text = 0
        for key, after in joined.items[name].items():
            before = originals.get(key)
            if before is not None and before.text and after.text:
                with_text += 1
                words = text_key(before.text, before.options)
                same += words == text_key(after.text, after.options)
        if same > PerturbThresholds().noop_share_max * with_text:
            share = f"{same:,} of the {with_text:,} items of {name} have the words of {benchmark}"
            raise DataError(f"{share}. Expected a log of the same items, reworded.")


def _library(
    joined: Joined, benchmark: str, names: Sequence[str], questions: Sequence[Item]
) -> Library:
    """Return a library of the rewordings in the logs.

    Neither the program's acceptance checks nor a person has checked these rewordings.
    """
    header = Header(
        name=f"{benchmark}_imported",
        benchmark=benchmark,
        benchmark_revision=digest(sorted(q.id for q in questions)),
        questions_sha256=questions_sha256(questions),
        n_questions=len(questions),
        strategy=IMPORTED,
        window=(0.0, 2.0),
        changes="stem",
        context="none",
        options="keep",
        num_variants=len(names),
        max_attempts=1,
        seed=0,
        licence="that of the logs",
        embedder=ModelRef("none", "none"),
    )
    variants = []
    for q, (j, name) in product(questions, enumerate(names, start=1)):
        reworded = joined.items[name].get(q.id)
        if reworded is not None:
            variant = Variant(
                q.id,
                j,
                question_sha256(q),
                "",
                q.text,
                reworded.text or "",
                q.options,
                q.gold,
                q.order,
                None,
                name,
                0,
                State.ACCEPTED,
            )
            variants.append(variant)
    return Library(header, tuple(variants))


def _rows(
    model: str, joined: Joined, questions: Sequence[Item], names: Sequence[str], seed: int
) -> Iterator[dict[str, Any]]:
    """Yield the rows of each original item and its variants (rewordings).

    A row has an answer only if the logs contain the answers to both the original and the variant.
    """
    rng = random.Random(f"{seed} {model}")
    logs = [joined.answers.get((model, name), {}) for name in (questions[0].benchmark, *names)]
    for q in questions:
        first = logs[0].get(q.id)
        for level, (name, log) in enumerate(zip((q.benchmark, *names), logs, strict=True)):
            # One of several trials is drawn, since the audit needs single answers and not shares of
            # right trials. Moreover, trials of one wording are more alike than trials of different
            # wordings.
            answer = (
                rng.choice(each_trial(rng.choice(log[q.id]))) if first and q.id in log else None
            )
            item = joined.items[name].get(q.id)
            columns = {
                "arm": _arm(level),
                "variant": level,
                "wording": (item and item.text) or "",
                "variant_id": f"{q.id}#{level}" if level else None,
            }
            yield row(SCHEMA, model, joined.revisions.get(model), q, answer) | columns
