"""Every command of the program, in one table; a module here reads its words and hands over to the rooms below.

A new command is one line of COMMANDS.
"""

from dataclasses import dataclass

from audit.entry_points import added


@dataclass(frozen=True)
class Command:
    """module: its `main()` reads sys.argv. config: conf/<config>.yaml where it takes Hydra's overrides, else ""."""

    module: str
    does: str
    config: str = ""


_OURS: dict[str, Command] = {
    "demo": Command("audit.commands.demo", "a model before and after it read the exam: two verdicts in half a minute"),
    "plan": Command(
        "audit.commands.plan", "calls, tokens, time and power of an audit (audit=NAME); starts nothing", "sweep"
    ),
    "sweep": Command("audit.sweep.__main__", "router-worker audit: gains where noise should cost", "sweep"),
    "perturb": Command("audit.perturb.__main__", "the same questions in other words", "perturb"),
    "memory": Command("audit.memory.__main__", "has it read the benchmark? likelihoods, held-out items", "memory"),
    "validity": Command(
        "audit.validity.__main__", "construct validity: edits that move answers, or should not", "validity"
    ),
    "suite": Command("audit.commands.suite", "several audits of one pinned model, on one engine; one decision"),
    "watch": Command("audit.commands.watch", "how far a run is: rows, accuracy, time left, money, one reply"),
    "import": Command(
        "audit.commands.import_logs", "finished evaluations of other tools, as a run; their held-out gap"
    ),
    "data": Command("audit.commands.data", "show how a question file is read, and the options that read it"),
    "references": Command("audit.commands.references", "sets of other models' answers, to compare with"),
    "inventory": Command("audit.commands.inventory", "which benchmarks a model could have read"),
    "variants": Command("audit.commands.variants", "build, list and review libraries of reworded questions"),
    "publish": Command("audit.commands.publish", "a benchmark's items and options in a random order that is recorded"),
    "runs": Command("audit.commands.runs", "the runs in a folder, with how far they came and their verdicts"),
    "open": Command("audit.commands.open", "a page of all runs in a folder, in the browser"),
    "report": Command("audit.commands.report", "build the report of finished runs again; several: a panel or one page"),
    "compare": Command("audit.commands.compare", "two versions of a model, question by question: what changed"),
    "export": Command("audit.commands.export", "a run's answers, or an audit's items, in the formats of other tools"),
    "gate": Command("audit.commands.gate", "a run's verdict as an exit code"),
    "review": Command("audit.commands.review", "signed decisions on a run: approve, reject, override"),
    "evidence": Command("audit.commands.evidence", "pack what a verdict rests on, signed; verify a pack"),
    "registry": Command("audit.commands.registry", "finished runs in a database: trends, retention, rotation, notices"),
    "calibrate": Command("audit.commands.calibrate", "the procedure's own error rates, simulated"),
    "plant": Command("audit.plant.__main__", "teach a model half of a benchmark: what would the audits see?", "plant"),
    "reanalyze": Command("audit.commands.reanalyze", "the paper's published table under exact tests"),
    "chronology": Command("audit.commands.chronology", "the faults of a project or run: add, check, render"),
    "completion": Command("audit.commands.completion", "print the completion script of bash, zsh or fish"),
}
# A name of ours keeps its meaning.
_ADDED = {
    name: Command(f"{one.value}.__main__", f"an audit of the package {one.value}", name)
    for name, one in added("audits").items()
    if name not in _OURS
}
COMMANDS = {**_OURS, **_ADDED}
# The first command of each group -> its heading in `audit --help`.
HEADINGS = {"demo": "run", "data": "prepare", "runs": "read", "gate": "decide", "calibrate": "calibrate and set up"}
HEADINGS |= dict.fromkeys(list(_ADDED)[:1], "of other packages")
