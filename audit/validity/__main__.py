"""Run or resume a construct-validity audit: `python -m audit.validity model=... benchmark=...`.

Three options start no run: `edits=show` prints items with all their edits, `plan=true` prints the
plan, and `score=FILE` scores stored predictions.

The exit code is 0 if the run finished, whatever the status, and 1 if it did not finish or a model
failed. With gate=true it is 4 for a status that is not confirmatory (`audit gate`).
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from audit.config.command_line import start
from audit.core.errors import ConfigError
from audit.core.exits import (
    FAILED,
    INTERRUPTED,
    OK,
    TERMINATED,
    one_line,
    plainly,
    refused,
    run_command,
)
from audit.judging.ladder import Decision
from audit.runtime.conduct import Prepared, conduct
from audit.shards.files import write_file
from audit.shards.working_copy import need_folder
from audit.validity.config import ValidityConfig, from_hydra
from audit.validity.design import ValidityThresholds

if TYPE_CHECKING:
    from audit.config.resolve import ResolvedRun


def main() -> None:
    """Run the validity audit that the command-line arguments describe.

    The arguments are checked, and Hydra composes the configuration. `benchmark=[a,b]` starts a
    separate run for each benchmark, and a list such as `seed=[1,2]` a separate run for each value.
    """
    try:
        panel = _runs(sys.argv[1:])
    except ConfigError as error:
        sys.exit(refused(error))
    if len(panel) == 1:
        sys.argv[1:] = panel[0]
        start(ValidityConfig, from_hydra, validity)
    else:
        run_command(lambda: plainly(_run_panel)(panel))


def _run_panel(panel: Sequence[Sequence[str]]) -> int:
    """Execute all runs of a panel on the same engines, write one report on them, and return the
    exit code.
    """
    from audit.runtime.keep import keep_engines

    done: list[tuple[ValidityConfig, Path]] = []

    def act(config: ValidityConfig) -> int:
        """Execute one run, and store its run directory in a list."""
        return validity(config, lambda config, run_dir: done.append((config, run_dir)))

    codes = []
    with keep_engines():
        for arguments in panel:
            sys.argv[1:] = arguments
            try:
                start(ValidityConfig, from_hydra, act)
            except SystemExit as end:
                codes.append(int(end.code or 0))
                if codes[-1] in (INTERRUPTED, TERMINATED):
                    return codes[-1]
    failed = FAILED in codes
    if len(done) < len(panel):  # A run is unfinished, or no run was requested (edits=show).
        if failed and done:
            refused("There is no joint report, since some benchmarks have no finished run.")
        return FAILED if failed else max(codes, default=OK)
    config = done[0][0]
    code = _judge_together(done, max(codes)) if config.report else OK
    return FAILED if failed else code if config.gate else OK


def _judge_together(done: Sequence[tuple[ValidityConfig, Path]], code: int) -> int:
    """Report the runs of a panel, and return the exit code.

    Several benchmarks get one joint report. Several runs of one benchmark get a report on whether
    its status is the same in all runs. If a status differs between runs, the exit code is that of
    "no decision".
    """
    from audit.judging.decision import read_verdict
    from audit.validity.cells import load_validity
    from audit.validity.facets import UNSTABLE, facets_csv, lines, stability, variance, variance_csv

    run_dirs = [run_dir for _, run_dir in done]
    folder = _panel_folder(run_dirs)
    if len({config.benchmark.name for config, _ in done}) > 1:
        return _report_together(run_dirs, folder)
    facets = {}
    for facet in FACETS:
        values = [getattr(config, facet) for config, _ in done]
        if len(set(values)) > 1:
            facets[facet] = values
    verdicts = [read_verdict(run_dir / "report" / "verdict.json") for run_dir in run_dirs]
    stabilities = stability(verdicts)
    parts = variance([load_validity(run_dir) for run_dir in run_dirs], facets)
    write_file(folder / "facets.csv", facets_csv(stabilities).encode())
    write_file(folder / "variance.csv", variance_csv(parts).encode())
    print("", *lines(stabilities, parts), f"facets   {folder / 'facets.csv'}", sep="\n", flush=True)
    unstable = any(result.status == UNSTABLE for result in stabilities)
    return Decision.NO_DECISION.exit_code if unstable else code


def _report_together(run_dirs: Sequence[Path], folder: Path) -> int:
    """Write one report of all runs, and return the exit code of `audit gate` for it."""
    from audit.runtime.summary import print_end
    from audit.shards.panel import write_panel
    from audit.validity.report import REPORT

    write_panel(folder, run_dirs)
    paths = REPORT.build(run_dirs, folder / "report")
    print(f"\nAll {len(run_dirs)} benchmarks together, corrected over all their cells:")
    print(f"report   {paths.html}", flush=True)
    return print_end(paths.content, run_dirs)


def _panel_folder(run_dirs: Sequence[Path]) -> Path:
    """Return the folder for the joint report of a panel.

    With run_dir=X, each run has the directory X/<benchmark>, and the joint report is in X. Without
    run_dir, the folder of the report is beside the run directories.
    """
    names = [run_dir.name for run_dir in run_dirs]
    parents = {run_dir.parent for run_dir in run_dirs}
    by_default = any(name.startswith("validity-") for name in names)
    if len(parents) == 1 and not by_default:
        return parents.pop()
    digest = hashlib.sha256("\n".join(names).encode()).hexdigest()
    return run_dirs[0].parent / f"validity-panel-{digest[:10]}"


# Several values of these options are crossed: each combination is a run.
FACETS = ("seed", "scorer", "template", "system")
# With several benchmarks, each of these options has a value for each benchmark, or is null.
_EACH = ("benchmark", "benchmark.path", "scorer")
_OF_XSTEST = ("judge", "judge_votes", "labels")


def _runs(arguments: Sequence[str]) -> list[list[str]]:
    """Return the arguments of each run. run_dir=X becomes X/<name of the run>.

    `benchmark=[a,b]` gives a run for each benchmark. Lists of other options, such as `seed=[1,2]`
    and `system=[none,helpful]`, are crossed: each combination of values is a run. Raises
    ConfigError if several benchmarks are combined with crossed options, or if a list has the wrong
    length.
    """
    given = {}
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if equals:
            given[key] = value
    listed = _listed(given)
    names = listed.get("benchmark", [])
    each = {key: listed[key] for key in _EACH if names and key in listed}
    facets = {key: listed[key] for key in FACETS if key in listed.keys() - each.keys()}
    _check_lists(names, each, facets)
    chosen: Iterable[tuple[str, ...]] = product(*facets.values())
    if names:
        need_folder(given.get("run_dir"), "A panel of several benchmarks")
        chosen = zip(*each.values(), strict=True)
    runs = []
    for choice in chosen:
        of_run = dict(zip(each | facets, choice, strict=True))
        runs.append(_arguments_of(arguments, of_run, "xstest" in names))
    return runs


def _check_lists(
    names: Sequence[str], each: Mapping[str, Sequence[str]], facets: Mapping[str, Sequence[str]]
) -> None:
    """Raise ConfigError if options with several values cannot be combined."""
    if names and facets:
        raise ConfigError(
            f"{', '.join(facets)} and benchmark have several values. "
            "Expected one benchmark, or one value of each other option."
        )
    for key, values in each.items():
        if len(values) != len(names):
            raise ConfigError(
                f"{key} has {len(values)} values for {len(names)} benchmarks. "
                "Expected one value for each benchmark. Example: 'scorer=[bbq,null]'"
            )
    for key, values in facets.items():
        if len(set(values)) < max(2, len(values)):
            raise ConfigError(
                f"{key} is {values}. Expected two or more different values. "
                "Example: 'seed=[42,123,2024]'."
            )


def _listed(given: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the values of each option that has a list, such as `seed=[1,2]`."""
    listed = {}
    for key, value in given.items():
        if re.fullmatch(r"\[.*\]", value):
            listed[key] = list(filter(None, map(str.strip, value[1:-1].split(","))))
    return listed


def _arguments_of(
    arguments: Sequence[str], values: Mapping[str, str], beside_xstest: bool
) -> list[str]:
    """Return the arguments of one run, with one value for each argument that has a list."""
    name = values.get("benchmark") or "-".join(f"{key}_{value}" for key, value in values.items())
    omitted = _OF_XSTEST if beside_xstest and name != "xstest" else ()
    of_run = []
    for argument in arguments:
        key, _, _ = argument.partition("=")
        if key in omitted:
            continue
        if key in values:
            of_run.append(f"{key}={values[key]}")
        elif key == "run_dir" and values:
            of_run.append(f"{argument}/{name}")
        else:
            of_run.append(argument)
    return of_run


def validity(
    config: ValidityConfig,
    done: Callable[[ValidityConfig, Path], None] = lambda config, run_dir: None,
) -> int:
    """Run one validity audit, unless an option requests something else.

    The options request to score a file (score=), to show the edits (edits=show), or to print the
    plan (plan=true).

    Parameters
    ----------
    config : ValidityConfig
        The options.
    done : callable
        Function that is called after each run that stored rows, with the options and the run
        directory.

    Returns
    -------
    int
        The exit code.
    """
    if config.score is not None:
        from audit.benchmarks.load import open_benchmark
        from audit.validity.score_file import lines, score_file

        benchmark = open_benchmark(config.benchmark, seed=config.seed)
        print(
            *map(one_line, lines(score_file(Path(config.score), benchmark, config.scorer))),
            sep="\n",
        )
        return OK
    if config.edits == "show" and not config.plan:
        from audit.validity.edits.plan import show
        from audit.validity.plan import resolve_validity

        run = resolve_validity(config)
        print("\n".join(show(run.plan, config.benchmark.format)))
        return FAILED if run.resolved.failed else OK

    def ended(run_dir: Path, resolved: ResolvedRun) -> dict[str, Any]:
        """Print the results of a finished run. If the run has a judge, the judge votes first."""
        from audit.runtime.summary import print_cells
        from audit.shards.read import load_cells
        from audit.validity.edits.file import FILE, read_edits, write_token_distances

        if config.judge is not None:
            from audit.validity.judge import judge_run

            judge_run(run_dir, config, config.judge)
        write_token_distances(run_dir, resolved, read_edits(run_dir / FILE))
        done(config, run_dir)
        print_cells(load_cells(run_dir, resolved.audit.schema), resolved.audit)
        return {}

    stage = "reading the benchmark, making its edits, resolving models"
    return conduct("validity", config, stage, lambda: _prepared(config), ended)


def _prepared(config: ValidityConfig) -> Prepared:
    """Resolve the run. Return the run, its analysis options, and the notes to print."""
    from audit.validity.plan import resolve_validity

    run = resolve_validity(config)
    notes = []
    for name, count in run.plan.replaced.items():
        notes.append(f"edit {name}: {count} changed nothing and were replaced if possible")
    return Prepared(
        run.resolved,
        ValidityThresholds.from_mapping(config.verdict),
        {"edits_per_family": config.edits_per_family, "scorer": run.facts},
        notes=tuple(notes),
    )


if __name__ == "__main__":
    run_command(main)
