"""Answers of many models to MMLU (HELM) and MMLU-Pro: how often a gap is found where there is none,
and tau."""

import ast
import csv
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import scipy

from audit.statistics.set_difference import set_difference
from external.judged import FOUND, Set, Tally, panel, rate

HELM, PRO = "mmlu_predictions/original_helm_combined", "mmlu_pro_predictions/predictions.parquet"
DRAWS = 60


@cache
def helm(data: Path) -> tuple[tuple[str, ...], np.ndarray, np.ndarray]:
    """(models, scores (models, items), subjects (items,)); NaN: what is no letter."""
    gold: dict[tuple[str, tuple[str, ...]], str] = {}
    for path in sorted((data / "mmlu" / "test").glob("*.csv")):
        with path.open(newline="", encoding="utf-8") as file:
            gold |= {(row[0], tuple(row[1:5])): row[5] for row in csv.reader(file)}
    rows, subjects, models = [], [], ()
    for path in sorted((data / HELM).glob("*.csv")):
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                right = gold.get(
                    (row["question"], tuple(map(str, ast.literal_eval(row["choices"]))))
                )
                models = tuple(list(row)[2:])
                if right is not None:
                    letters = [row[name].strip() for name in models]
                    rows.append(
                        [
                            float(letter == right) if letter in tuple("ABCD") else np.nan
                            for letter in letters
                        ]
                    )
                    subjects.append(path.stem)
    return models, np.array(rows).T, np.array(subjects)


@cache
def pro(data: Path) -> tuple[tuple[str, ...], np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(models, scores (models, items), source, category, options of each item); NaN: no letter was
    found."""
    table = pq.read_table(data / PRO).to_pydict()
    models, m = np.unique(table["model"], return_inverse=True)
    ids, i = np.unique(table["question_id"], return_inverse=True)
    scores = np.full((len(models), len(ids)), np.nan)
    scores[m, i] = [
        np.nan if p is None else float(p == a)
        for p, a in zip(table["pred"], table["answer"], strict=True)
    ]
    source, category = np.empty(len(ids), dtype="U10"), np.empty(len(ids), dtype="U20")
    options = np.zeros(len(ids), dtype=np.int64)
    source[i] = [name.partition("-")[0] for name in table["src"]]
    category[i], options[i] = table["category"], table["options"]
    return tuple(map(str, models)), scores, source, category, options


def halves(data: Path, references: int, kind: str) -> tuple[int, int, Tally]:
    """(gaps found, models judged, verdicts): one model at a time, 1,000 items against 500; no model
    learnt either."""
    models, scores, subjects = helm(data)
    rng, tally = np.random.default_rng([references, kind == "subjects"]), Tally()
    for draw in range(DRAWS):
        order = rng.permutation(scores.shape[1])
        if kind == "subjects":
            mine = rng.permutation(np.unique(subjects))[:28]
            inside = np.isin(subjects[order], mine)
            order = np.concatenate([order[inside][:1000], order[~inside][:500]])
        names = rng.permutation(len(models))[: references + 1]
        cut = [order[:1000], order[1000:1500]]
        sides = [
            Set({models[k]: scores[k, part] for k in names}, np.full(part.size, 4)) for part in cut
        ]
        tested, *others = (models[k] for k in names)
        tally.add(panel(sides[0], sides[1], {tested: others}, seed=draw))
    return sum(tally.gaps.values()), DRAWS, tally


def tau(scores: np.ndarray, published: np.ndarray, held_out: np.ndarray) -> str:
    """Return `spread` in words."""
    value, low, high = spread(scores, published, held_out)
    return f"{value:.1f} [{low:.1f}, {high:.1f}]"


def spread(
    scores: np.ndarray, published: np.ndarray, held_out: np.ndarray
) -> tuple[float, float, float]:
    """SD between models of their true differences, points, with a 95 % interval by chi-squared of
    the spread."""
    sets = [(row[published], row[held_out]) for row in scores]
    result = set_difference(sets[0], sets)
    df = len(sets) - 1
    limits = [df * result.spread / scipy.stats.chi2.ppf(q, df) for q in (0.975, 0.025)]
    low, high = (100 * float(np.sqrt(max(limit - result.sampling, 0.0))) for limit in limits)
    return 100 * float(result.tau), low, high


def pro_pairs(data: Path) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Kinds of pairs of sets: (name, items, items)."""
    _, _, source, category, _ = pro(data)
    rng = np.random.default_rng(0)
    mmlu, other = np.flatnonzero(source == "ori_mmlu"), np.flatnonzero(source == "stemez")
    mixed = rng.permutation(mmlu)
    yield "random halves of the items from MMLU", mixed[::2], mixed[1::2]
    inside = np.isin(category[mmlu], rng.permutation(np.unique(category[mmlu]))[::2])
    yield "other subjects of MMLU", mmlu[inside], mmlu[~inside]
    for name in ("biology", "economics", "psychology", "chemistry", "physics"):
        yield (
            f"another source (`stemez`), {name}",
            mmlu[category[mmlu] == name],
            other[category[other] == name],
        )
    yield "another source (`stemez`), all subjects", mmlu, other


def stemez(data: Path, references: int, as_wrong: bool) -> tuple[Tally, Counter[str]]:
    """Every model judged with `stemez` items as if they were held-out items of MMLU, which are of
    another kind; and how often each gate failed. as_wrong: what is no letter counts as wrong, as a
    leaderboard has it."""
    models, scores, source, _, options = pro(data)
    scores = np.nan_to_num(scores) if as_wrong else scores
    sides = []
    for name in ("ori_mmlu", "stemez"):
        mine = np.flatnonzero(source == name)
        sides.append(Set({m: scores[k, mine] for k, m in enumerate(models)}, options[mine]))
    rng, tally, gates = np.random.default_rng(references), Tally(), Counter[str]()
    chosen = {}
    for model in models:
        others = [name for name in rng.permutation(models) if name[:4].lower() != model[:4].lower()]
        chosen[model] = others[:references]
    results = panel(sides[0], sides[1], chosen)
    tally.add(results)
    gates.update(gate.name for result in results for gate in result.gates if gate.status == "fail")
    return tally, gates


def report_helm(data: Path) -> Iterator[str]:
    """Lines of markdown."""
    yield "| sets, 1,000 and 500 items | references | gap found where none is | withheld |\n|---|---|---|---|"
    for kind, label in (
        ("halves", "random halves of MMLU"),
        ("subjects", "other subjects of MMLU"),
    ):
        for references in (5, 8):
            k, n, tally = halves(data, references, kind)
            yield f"| {label} | {references} | {rate(k, n)} | {tally.verdicts['withheld']} |"


def report_pro(data: Path) -> Iterator[str]:
    """Lines of markdown."""
    _, scores, *_ = pro(data)
    parsed = scores[np.isnan(scores).mean(axis=1) < 0.01]
    yield f"| pair of sets | tau, 28 models, no letter as wrong | tau, the {len(parsed)} models with 99 % parsed |"
    yield "|---|---|---|"
    for label, first, other in pro_pairs(data):
        yield f"| {label} | {tau(np.nan_to_num(scores), first, other)} | {tau(parsed, first, other)} |"
    yield "\n`stemez` items as held-out items of MMLU, 28 models, references of other families:\n"
    yield "| references | what is no letter | gap found | verdicts | gates that failed |\n|---|---|---|---|---|"
    for as_wrong in (False, True):
        for references in (5, 8):
            tally, gates = stemez(data, references, as_wrong)
            shown = (
                ", ".join(f"{k} {v}" for k, v in sorted(counts.items()))
                for counts in (tally.verdicts, gates)
            )
            treatment = "wrong" if as_wrong else "unparsed"
            share = rate(tally.verdicts[FOUND], tally.verdicts.total())
            yield f"| {references} | {treatment} | {share} | {' | '.join(shown)} |"
