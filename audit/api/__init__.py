"""Run audits and read their runs from Python: the public functions of the package.

Arguments have the names and values of the commands' options. Heavy modules are imported inside the
functions, so that `import audit` is fast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack, get_type_hints

if TYPE_CHECKING:
    from collections.abc import Callable

    from audit.judging.decision import Ruling
    from audit.registry.comparison import CellChange
    from audit.runtime.loading import Run, RunEntry


class Options(TypedDict, total=False):
    """Name the options of every audit; docs/reference/python.md describes how they are passed.

    Attributes
    ----------
    model : str or sequence of str
        Names of model configurations.
    endpoint, model_id, api_key_env : str
        A server's URL, the id of the model on the server, and the name of the environment variable
        that holds the server's key.
    benchmark : str or mapping
        Name of a benchmark, or configuration keys of a benchmark, such as {"path": "exam.csv"}.
    data : Path or str
        File with questions, used instead of a benchmark.
    n : int, str or None
        Number of questions, "all", or None for the audit's default.
    seed : int
        Seed of the sample and of the analysis.
    reading : str or None
        How answers are read from replies; None uses the configuration of each model.
    canary : bool
        True stops a model if more than half of its first answers are unparsed.
    run_dir : Path, str or None
        Run directory; None derives its name from the configuration.
    report, gate, progress : bool
        report writes the report, gate ends with the gate's exit code, progress prints the progress.
    registry : str or None
        File or address of the registry in which the finished run is recorded.
    verdict : mapping
        Thresholds of the verdict, by name.
    cluster, cost : str or mapping
        Options of the Ray cluster, and prices and limits of cost.
    preset : str
        Name of a set of options.
    """

    model: str | Sequence[str]
    endpoint: str
    model_id: str
    api_key_env: str
    benchmark: str | Mapping[str, Any]
    data: Path | str
    n: int | str | None
    seed: int
    reading: str | None
    canary: bool
    run_dir: Path | str | None
    report: bool
    gate: bool
    progress: bool
    registry: str | None
    verdict: Mapping[str, Any]
    cluster: str | Mapping[str, Any]
    cost: str | Mapping[str, Any]
    preset: str


class SweepOptions(Options, total=False):
    """Name the options of the router-worker sweep.

    Attributes
    ----------
    r : int, str or sequence of int
        Numbers of routers in the noisy arm, such as "1..9".
    arms : sequence of str
        Arms (conditions) to run.
    draws : str
        "nested" (every r uses the first r messages of one set) or "independent" (every r has its
        own messages).
    aggregator : str
        How the r messages are put together for the worker: concatenate, summary or vote.
    replicates, clean_replicates, noisy_replicates : int
        Three numbers of runs: of every router arm, of the clean baseline, and of the noisy arm.
    ensemble_control : bool
        True also runs the arm forward_full with more than one router. In this arm nothing is
        deleted from the messages.
    worker : str or None
        Model that answers, if it is not the router's model.
    messages_from, messages_of : Path, str or None
        A finished run, from whose stored router messages the worker answers. If that run has
        several models, messages_of names one of them.
    hint_reference : Path, str or sequence of str
        Runs in which other models answered this run's messages.
    """

    r: int | str | Sequence[int]
    arms: Sequence[str]
    draws: str
    aggregator: str
    replicates: int
    clean_replicates: int
    noisy_replicates: int
    ensemble_control: bool
    worker: str | None
    messages_from: Path | str | None
    messages_of: str | None
    hint_reference: Path | str | Sequence[str] | None


class ReferencedOptions(Options, total=False):
    """Name the options of audits that use reference models and held-out items.

    Attributes
    ----------
    references : sequence of str
        Reference models, which are run but not judged, or finished runs of such models.
    allow_convicted : sequence of str
        References to use although an audit found contamination in these models.
    control_benchmark : str or mapping
        Benchmark of held-out items, which no model can have seen.
    control_data : Path or str
        File with held-out items.
    """

    references: Sequence[str]
    allow_convicted: Sequence[str]
    control_benchmark: str | Mapping[str, Any]
    control_data: Path | str


class PerturbOptions(ReferencedOptions, total=False):
    """Name the options of the perturbation audit.

    Attributes
    ----------
    variants, control_variants : Path, str or None
        Two libraries of rewordings: one for the benchmark, and one for the held-out items.
    num_variants : int
        Number of rewordings of each question.
    original_replicates : int
        Number of runs of the original wording. The differences between these runs are the noise
        floor.
    """

    variants: Path | str | None
    control_variants: Path | str | None
    num_variants: int
    original_replicates: int


class MemoryOptions(ReferencedOptions, total=False):
    """Name the options of the memory audit.

    Attributes
    ----------
    fresh_after : str
        Date after which items count as held out.
    orders, option_orders : int
        Number of random orders that are compared with the published order: orders of the items of
        each shard, and orders of the wrong options of each item.
    published_order : Path, str or None
        Record written by `audit publish`, if the published order was drawn at random.
    """

    fresh_after: str
    orders: int
    option_orders: int
    published_order: Path | str | None


class ValidityOptions(Options, total=False):
    """Name the options of the construct-validity audit.

    Attributes
    ----------
    scorer : str or None
        Name of a reference scorer; None uses the benchmark's scorer.
    judge, judge_votes : str or None, int
        For XSTest: a model that classifies the replies by majority vote, and its number of votes on
        each reply.
    labels : Path, str or None
        For XSTest: file of replies labelled by people, with which the scorer is validated.
    variants : Path, str or None
        Library of paraphrases.
    formats : sequence of str
        Names of format edits. An empty sequence uses the format edits of the benchmark.
    edits_per_family : int
        Number of edits of each family.
    """

    scorer: str | None
    judge: str | None
    judge_votes: int
    labels: Path | str | None
    variants: Path | str | None
    formats: Sequence[str]
    edits_per_family: int


Function = TypeVar("Function", bound="Callable[..., Run]")


def _named(options: type) -> Callable[[Function], Function]:
    """Return a decorator that adds the keys of a TypedDict to a function's signature.

    help() and completion then show these keys as parameters.
    """

    def with_names(function: Function) -> Function:
        names = get_type_hints(options)
        parameters = [
            Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind) for name, kind in names.items()
        ]
        more = Parameter("options", Parameter.VAR_KEYWORD)
        function.__signature__ = signature(function).replace(parameters=[*parameters, more])  # type: ignore[attr-defined]
        return function

    return with_names


@_named(SweepOptions)
def run_sweep(**options: Unpack[SweepOptions]) -> Run:
    """Run or resume a router-worker sweep in this process, and load the run.

    Parameters
    ----------
    **options : SweepOptions
        Options of the command, such as model="qwen3_8b" and n=200.

    Returns
    -------
    audit.runtime.loading.Run
        The run as tables.

    Raises
    ------
    ConfigError
        If the options are invalid.
    AuditError
        If no model finished.

    Examples
    --------
    >>> run = run_sweep(model="scripted", n=20, r="1..3")  # doctest: +SKIP
    """
    return run("sweep", **options)


@_named(PerturbOptions)
def run_perturb(**options: Unpack[PerturbOptions]) -> Run:
    """Run or resume a perturbation audit in this process, and load the run.

    Parameters
    ----------
    **options : PerturbOptions
        Options of the command, such as model="qwen3_8b" and n=200.

    Returns
    -------
    audit.runtime.loading.Run
        The run as tables.

    Raises
    ------
    ConfigError
        If the options are invalid.
    AuditError
        If no model finished.

    Examples
    --------
    >>> run = run_perturb(model="scripted", n=20)  # doctest: +SKIP
    """
    return run("perturb", **options)


@_named(MemoryOptions)
def run_memory(**options: Unpack[MemoryOptions]) -> Run:
    """Run or resume a memory audit in this process, and load the run.

    Parameters
    ----------
    **options : MemoryOptions
        Options of the command, such as model="qwen3_8b" and n=200.

    Returns
    -------
    audit.runtime.loading.Run
        The run as tables.

    Raises
    ------
    ConfigError
        If the options are invalid.
    AuditError
        If no model finished.

    Examples
    --------
    >>> run = run_memory(  # doctest: +SKIP
    ...     endpoint="http://127.0.0.1:8000/v1",
    ...     model_id="my-model",
    ...     data="exam.csv",
    ...     control_data="unseen.csv",
    ...     references=["other-model", "third-model", "fourth-model"],
    ... )
    """
    return run("memory", **options)


@_named(ValidityOptions)
def run_validity(**options: Unpack[ValidityOptions]) -> Run:
    """Run or resume a construct-validity audit in this process, and load the run.

    Parameters
    ----------
    **options : ValidityOptions
        Options of the command, such as model="qwen3_8b" and n=200.

    Returns
    -------
    audit.runtime.loading.Run
        The run as tables.

    Raises
    ------
    ConfigError
        If the options are invalid.
    AuditError
        If no model finished.

    Examples
    --------
    >>> run = run_validity(model="scripted", n=20)  # doctest: +SKIP
    """
    return run("validity", **options)


def run(audit: str, **options: Any) -> Run:
    """Run or resume an audit in this process, as its command does, and load the run.

    Parameters
    ----------
    audit : str
        Name of the audit: sweep, perturb, memory, validity, or an audit that another package adds.
    **options
        Options of the command: model="qwen3_8b", n=200, references=["a", "b"]. A mapping sets the
        keys below a key: benchmark={"path": "exam.csv"}. Options that are not given are read from
        audit.yaml in the current folder, as by the command.

    Returns
    -------
    audit.runtime.loading.Run
        The run as tables.

    Raises
    ------
    ConfigError
        If the options are invalid.
    AuditError
        If no model finished.
    """
    from audit.config.audits import part_of
    from audit.config.command_line import NAMED_MODEL, configured
    from audit.config.plain_words import words
    from audit.config.project import with_project
    from audit.config.short_forms import need_model, one_call
    from audit.core.errors import AuditError, ConfigError
    from audit.core.exits import tell

    if options.get("plan"):
        raise ConfigError(
            f"plan=True starts no run. Expected the command: audit {audit} plan=true ..."
        )
    part = part_of(audit, "__main__")
    arguments = list(words(options))
    if audit in NAMED_MODEL:
        arguments, project = with_project(arguments, audit)
        need_model(arguments)
        if project:
            tell(project)
    with one_call():
        config = configured(audit, arguments)
        code = getattr(part, audit)(config)
    if config.run_dir is None:
        raise AuditError(
            f"audit.run({audit!r}) ended with exit code {code} and without a run. The reason is "
            "printed above."
        )
    return load(config.run_dir)


def load(run_dir: Path | str) -> Run:
    """Load a run directory as tables.

    Parameters
    ----------
    run_dir : Path or str
        Directory of the run.

    Returns
    -------
    audit.runtime.loading.Run
        The run as tables.

    Raises
    ------
    AuditError
        If the directory is not a run, or if its shards are damaged.
    """
    from audit.runtime.loading import load as load_run

    return load_run(run_dir)


def find_runs(folder: Path | str = "outputs") -> list[RunEntry]:
    """Return every run in a folder, the latest first.

    Parameters
    ----------
    folder : Path or str
        Folder to search.

    Returns
    -------
    list of audit.runtime.loading.RunEntry
        One entry for each run.
    """
    from audit.runtime.loading import find_runs as runs_in

    return runs_in(folder)


class ImportOptions(TypedDict, total=False):
    """Name the options of `audit import`.

    Attributes
    ----------
    held_out : sequence of Path or str
        Logs of held-out items, or the name of a benchmark in the logs that has such items.
    split : str
        "COLUMN=DATE": rows of a table from this date on are the held-out items.
    reworded : sequence of Path or str
        Logs of the same items in other wordings.
    judge, references : sequence of str
        Names of models to judge, and of models that serve as references.
    family : str
        Family of the judged models. Models of this family in a reference set are left out.
    held_out_date : str
        When the held-out items were written, such as "2024-05" or "2024-05..2024-08".
    released : sequence of str
        Dates after which no text was in the training data of the judged models: one date, or
        MODEL=DATE for each model.
    model, benchmark : str
        Names to use if a log does not state them.
    map : mapping of str to str
        Maps each field to the column of a table that holds it.
    key : str
        Field that identifies an item in every log; "text" matches items by their words.
    metric, filter : str
        Name of the score to read, and lm-eval's filter.
    options : int
        Number of options of an item, if no log lists them; 0 for free answers.
    below_chance_is_real : bool
        True accepts a score far below that of guessing.
    answer_as, gold_as : str
        How answers and keys are written in a table.
    seed : int
        Seed of the analysis.
    """

    held_out: Sequence[Path | str]
    split: str
    reworded: Sequence[Path | str]
    judge: Sequence[str]
    references: Sequence[str]
    family: str
    held_out_date: str
    released: Sequence[str]
    model: str
    benchmark: str
    map: Mapping[str, str]
    key: str
    metric: str
    filter: str
    options: int
    below_chance_is_real: bool
    answer_as: str
    gold_as: str
    seed: int


def import_logs(
    logs: Sequence[Path | str], out: Path | str, **options: Unpack[ImportOptions]
) -> Run:
    """Import finished evaluations as a run, judge them, and load the run.

    Parameters
    ----------
    logs : sequence of path
        Logs, or folders with logs. "NAME=LOG" gives another name to the model of a log.
    out : path
        Run directory to write.
    **options
        Options of `audit import`: held_out=["new.eval"], judge=["tuned"], map={"correct": "right"}.

    Returns
    -------
    audit.runtime.loading.Run
        The run as tables.

    Raises
    ------
    AuditError
        If the logs cannot be used, or if the options are invalid.

    Examples
    --------
    >>> run = import_logs(["scores.csv"], "outputs/scores", held_out=["new.csv"])  # doctest: +SKIP
    """
    import contextlib
    import io
    import sys

    from audit.commands import tree
    from audit.core.errors import UsageError

    words = ["import", *map(str, logs), "-o", str(out)]
    for name, value in options.items():
        words += _option(name, value)
    refusal = io.StringIO()
    try:
        with contextlib.redirect_stderr(refusal):
            arguments = tree(words).parse_args(words)
    except SystemExit:
        raise UsageError(refusal.getvalue().strip().rpartition("error: ")[2]) from None
    with contextlib.redirect_stdout(sys.stderr):
        arguments.run(arguments)
    return load(out)


def _option(name: str, value: Any) -> list[str]:
    """Return one option as the arguments of a command."""
    from audit.core.errors import ConfigError, check_known

    check_known("option", name, get_type_hints(ImportOptions))
    flag = f"--{name.replace('_', '-')}"
    if value is None or value is False:
        return []
    if value is True:
        return [flag]
    if isinstance(value, Mapping):
        return [flag, ",".join(f"{key}={item}" for key, item in value.items())]
    if isinstance(value, Sequence) and not isinstance(value, str):
        if not value:
            raise ConfigError(
                f"{name} is empty. Expected one or more values. Example: {name}=['NAME']"
            )
        return [flag, *map(str, value)]
    return [flag, str(value)]


def gate(run_dir: Path | str, *, trust_report: bool = False) -> Ruling:
    """Return the gate's decision on a finished run or panel.

    Signed decisions of people are ignored.

    Parameters
    ----------
    run_dir : path
        Directory of a run, or of a panel.
    trust_report : bool
        True uses the verdict in verdict.json. False computes the verdict again from the answers.

    Returns
    -------
    audit.judging.decision.Ruling
        The decision with its exit code. If there is no verdict to decide by, `problem` states the
        reason.
    """
    from audit.commands.again import recomputed_verdict
    from audit.governance.ruling import rule_run

    return rule_run(Path(run_dir), None if trust_report else recomputed_verdict)


def compare(
    before: Path | str, after: Path | str, *, models: Mapping[str, str] | None = None
) -> list[CellChange]:
    """Compare two runs of the same questions, question by question.

    Parameters
    ----------
    before, after : path
        Directories of two runs of the same audit, or of two panels.
    models : mapping, optional
        Maps the name of a model in `before` to its name in `after`, if the names differ.

    Returns
    -------
    list of audit.registry.comparison.CellChange
        Comparison of each model on each benchmark.

    Raises
    ------
    ConfigError
        If the runs cannot be compared.
    """
    from audit.registry.comparison import compare_runs

    return list(compare_runs(Path(before), Path(after), list((models or {}).items()), []))
