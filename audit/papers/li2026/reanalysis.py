"""What li2026's printed tables can still tell: statuses, ratios, threshold sweeps, and statements that do not follow.

Pure: the csv texts come in, results go out; `audit reanalyze li2026` reads the shipped tables and shows them. Deltas
are printed with three decimals and stand for k/600 (200 items, three edits, binary scores); gates use them so restored.
"""

import csv
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from audit.errors import DataError
from audit.validity.status import PAPER, PaperCell, PaperStatus, PaperThresholds, Status, paper_status, raw_words

N_ITEMS, N_EDITS = 200, 3
N_SCORES = N_ITEMS * N_EDITS
CROWS, BBQ, TRUTHFULQA = "CrowS-Pairs", "BBQ", "TruthfulQA"
# G2's trivial baselines (note of Table 6). CrowS has none there: its cells stop at step 1.
BASELINES = {TRUTHFULQA: 1 / 4, BBQ: 1 / 3, "ToxiGen": 0.5, "XSTest": 0.5, CROWS: 0.5}
# The best rule that never reads the question (audit.scoring.shortcuts; measured on the published files).
ANSWER_ONLY = BASELINES | {TRUTHFULQA: 0.503, BBQ: 0.5, "XSTest": 0.556}
UNINSTRUMENTED = {CROWS}  # step 1, as section 3 discloses
UNVALIDATED = {"ToxiGen", "XSTest"}  # step 3
MISALIGNED = {BBQ}  # step 4
ORDER = (
    ("ineligible", (Status.INELIGIBLE_F1, Status.INELIGIBLE_F5)),
    ("scorer-unvalidated", (Status.SCORER_UNVALIDATED,)),
    ("failed G2-G4", (Status.FAILED,)),
    ("exploratory", (Status.EXPLORATORY,)),
    ("confirmatory", (Status.SELECTIVE, Status.NON_SELECTIVE)),
)
G3_GRID, EPSILON_GRID, G1_GRID = (0.01, 0.02, 0.05, 0.1), (0.001, 0.01, 0.1), (0.05, 0.10, 0.20)


@dataclass(frozen=True)
class CellResult:
    """One row of Table 6: as printed, as restored, and what the algorithm says of it."""

    cell: PaperCell
    status: PaperStatus
    printed_csr: float
    printed_bucket: str
    raw_verdict: str

    @property
    def name(self) -> str:
        return f"{self.cell.model} x {self.cell.benchmark}"

    @property
    def counts(self) -> tuple[int, int, int]:
        """k of k/600: format, semantic, attribute."""
        fmt, sem, attr = (round(d * N_SCORES) for d in (self.cell.delta_fmt, self.cell.delta_sem, self.cell.delta_attr))
        return fmt, sem, attr

    @property
    def seed_cv_at_most(self) -> float | None:
        """App. F: over three seeds, 0.27 or less on every cell but Qwen x BBQ, where the ratio is 0."""
        return None if self.cell.csr() == 0 else 0.27

    @property
    def csr_follows(self) -> bool:
        return round(self.cell.csr(), 2) == self.printed_csr

    @property
    def bucket_follows(self) -> bool:
        """Whether Table 3 and the raw verdict are what the algorithm gives."""
        return self.printed_bucket == self.status.status and self.raw_verdict in raw_words(self.status.status)


@dataclass(frozen=True)
class Statement:
    """A printed statement that the printed tables contradict."""

    name: str
    printed: str
    found: str


@dataclass(frozen=True)
class Li2026:
    """Everything that follows from the tables. g3, g1: threshold -> counts in the order of `ORDER`; epsilon: floor ->
    cells whose denominator it replaces. with_table7: the counts with Table 7's column C as input of G1. answer_only:
    the statuses with `ANSWER_ONLY` for G2's baselines."""

    cells: tuple[CellResult, ...]
    g3: Mapping[float, tuple[int, ...]]
    g1: Mapping[float, tuple[int, ...]]
    epsilon: Mapping[float, tuple[str, ...]]
    with_table7: tuple[int, ...]
    answer_only: tuple[PaperStatus, ...]
    statements: tuple[Statement, ...]

    @property
    def counts(self) -> tuple[int, ...]:
        return counts(result.status for result in self.cells)

    @property
    def answer_only_counts(self) -> tuple[int, ...]:
        return counts(self.answer_only)

    @property
    def sentence(self) -> str:
        """The one line of the terminal and the json."""
        said = ", ".join(f"{n} {name}" for n, (name, _) in zip(self.counts, ORDER, strict=True))
        follow = sum(r.bucket_follows for r in self.cells), sum(r.csr_follows for r in self.cells)
        return (
            f"{said}: {follow[0]} of {len(self.cells)} rows of Table 3 and {follow[1]} printed CSRs follow; "
            f"{len(self.statements)} printed statements do not."
        )


def reanalyse_li2026(table6: str, table3: str, table7: str, trail: str) -> Li2026:
    """Csv texts of Tables 6, 3 and 7 and of Appendix J's trail -> what follows. Raises DataError: a damaged table."""
    table = _rows(table3, ("model", "benchmark", "bucket"), "Table 3")
    buckets = {(row["model"], row["benchmark"]): row["bucket"] for row in table}
    cells = []
    for row in _rows(table6, ("model", "benchmark", "score_original", "csr", "raw_verdict"), "Table 6"):
        cell = _cell(row)
        key = (cell.model, cell.benchmark)
        if key not in buckets:
            raise DataError(f"Table 3 has no row of {key[0]} x {key[1]}, which Table 6 has.")
        cells.append(CellResult(cell, paper_status(cell), _number(row, "csr"), buckets[key], row["raw_verdict"]))
    rates = _rows(table7, ("benchmark", "canonical"), "Table 7")
    noop = {row["benchmark"]: _number(row, "canonical") / 100 for row in rates if row["canonical"]}
    plain = [result.cell for result in cells]

    def swept(change: Callable[[PaperCell], PaperCell], thresholds: PaperThresholds = PAPER) -> tuple[int, ...]:
        return counts(paper_status(change(cell), thresholds) for cell in plain)

    def repaired(cell: PaperCell) -> PaperCell:  # Appendix E's rates: only CrowS is not 0 after the repair
        return replace(cell, instrumented=True, noop=noop.get(CROWS) if cell.benchmark == CROWS else 0.0)

    harder = tuple(paper_status(replace(cell, baseline=ANSWER_ONLY[cell.benchmark])) for cell in plain)
    g3 = {value: swept(lambda c: c, replace(PAPER, g3_denominator=value)) for value in G3_GRID}
    epsilon = {value: tuple(r.name for r in cells if r.cell.denominator < value) for value in EPSILON_GRID}
    with_table7 = swept(lambda cell: replace(cell, instrumented=True, noop=noop.get(cell.benchmark)))
    return Li2026(
        cells=tuple(cells),
        g3=g3,
        g1={value: swept(repaired, replace(PAPER, g1_noop=value)) for value in G1_GRID},
        epsilon=epsilon,
        with_table7=with_table7,
        answer_only=harder,
        statements=statements(
            cells, with_table7, [r["status"] for r in _rows(trail, ("entry", "status"), "Appendix J")]
        ),
    )


def counts(statuses: Iterable[PaperStatus]) -> tuple[int, ...]:
    """How many cells land in each of the paper's five buckets."""
    found = Counter(status.status for status in statuses)
    return tuple(sum(found[status] for status in group) for _, group in ORDER)


def statements(
    cells: Sequence[CellResult], with_table7: tuple[int, ...], trail: Sequence[str]
) -> tuple[Statement, ...]:
    """The printed statements that do not follow; one that the tables bear out is left out."""
    truth = [r for r in cells if r.cell.benchmark == TRUTHFULQA]
    moved = [r for r in truth if r.cell.denominator < 0.1]
    floored = [r for r in cells if r.cell.denominator < 0.1]
    changed = [r for r in floored if r.cell.csr(0.1) != r.cell.csr(0.01)]
    dominated = [r for r in cells if r.cell.denominator < PAPER.g3_denominator]
    positive = [r for r in cells if r.cell.csr() > 0 and r.cell.benchmark != CROWS]
    unfixed = list(trail).count("unfixed")
    printed = counts(r.status for r in cells)
    found = [
        (len(moved) < len(truth), "Appendix E, G3 = 0.1",
         "would reclassify TruthfulQA's exploratory cells",
         f"{len(moved)} of {len(truth)}: " + ", ".join(f"{r.name} {r.cell.denominator:.3f}" for r in truth)),
        (0.1 > 0.5 * 0.0707, "Appendix E, size of 0.1",
         "0.1 is up to half the 2 SE of 0.07 (p = .5, n = 200)", "0.1 is 1.4 times 2 SE = 0.0707"),
        (len(changed) > len(dominated), "Appendix E, epsilon",
         "shifts CSR on denominator-dominated cells only",
         f"at 0.1 it floors {len(floored)} denominators and changes {len(changed)} CSRs; {len(dominated)} cell(s) fail "
         "G3; between 0.001 and 0.01 it changes none"),
        (with_table7 != printed, "Table 7, column C",
         "with the canonical rates any cap up to 83 % leaves 3/3/2/2/0 (Appendix E)",
         f"as input of G1 it gives {'/'.join(map(str, with_table7))}; the 0 % after the repair stand in no table"),
        (unfixed != 3, "Appendix J", "three items remain unfixed", f"{unfixed} entries are marked so"),
        (len(positive) != 8, "Appendix F, placebo",
         "8 cells with CSR above 0, both BBQ cells among them",
         f"Qwen-2.5-7B x BBQ is exactly 0 in Table 6; without CrowS {len(positive)} cells are above 0"),
        (True, "Section 3, seeds", "single seed 42", "Appendix F reports CSR over the seeds 42, 123 and 2024"),
        (True, "Table 2, F3b", "MC1 fixes the order of the options",
         "MC1 lists the right option first in 817 of 817 items: only the shuffle fixes it"),
    ]  # fmt: skip
    return tuple(Statement(name, says, shows) for holds, name, says, shows in found if holds)


def _cell(row: Mapping[str, str]) -> PaperCell:
    benchmark = row["benchmark"]
    if benchmark not in BASELINES:
        raise DataError(f"Table 6 has the benchmark {benchmark!r}. Expected one of {', '.join(BASELINES)}.")
    deltas = {}
    for name in ("format", "semantic", "attribute"):
        printed = _number(row, f"delta_{name}")
        restored = round(printed * N_SCORES) / N_SCORES
        if abs(restored - printed) > 0.0005 + 1e-12:
            raise DataError(f"Table 6, {row['model']} x {benchmark}: delta_{name} {printed} is no k/{N_SCORES}.")
        deltas[name] = restored
    return PaperCell(
        model=row["model"],
        benchmark=benchmark,
        score=_number(row, "score_original"),
        n=N_ITEMS,
        baseline=BASELINES[benchmark],
        delta_fmt=deltas["format"],
        delta_sem=deltas["semantic"],
        delta_attr=deltas["attribute"],
        ci_low=_number(row, "ci_low"),
        ci_high=_number(row, "ci_high"),
        instrumented=benchmark not in UNINSTRUMENTED,
        scorer_validated=benchmark not in UNVALIDATED,
        archetype_aligned=benchmark not in MISALIGNED,
    )


def _rows(text: str, columns: Sequence[str], source: str) -> list[dict[str, str]]:
    reader = csv.DictReader(text.splitlines())
    missing = [name for name in columns if name not in (reader.fieldnames or [])]
    if missing:
        raise DataError(f"{source} lacks the column {missing[0]}; found {', '.join(reader.fieldnames or ['nothing'])}.")
    return list(reader)


def _number(row: Mapping[str, str], name: str) -> float:
    try:
        return float(row[name])
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{name} is {row.get(name)!r}; expected a number.") from error
