"""Memory told from sensitivity to wording, in worlds beyond the calibration's:
docs/findings/perturb_calibration.md.

    PYTHONPATH=. python tests/golden/statistics/common_fall_worlds.py [models]

Every tested model either remembers items or loses points to rewording for another reason. Printed
are per cent called beyond reference by the references alone (`before`), and where a common fall of
log-odds must be refuted too (`now`). Takes five minutes of one core with 200 models."""

import sys
import zlib
from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, ndtr

from audit.perturb.design import PerturbThresholds
from audit.perturb.evidence import run_tests
from audit.perturb.record import BrokenShare, PerturbCell, Wordings

VARIANTS = 3
LINKS: dict[str, Callable] = {
    "logit": expit,
    "probit": lambda x: ndtr(0.6 * x),
    "cloglog": lambda x: 1 - np.exp(-np.exp(np.clip(0.6 * x, -30, 4))),
    "guessing": lambda x: 0.25 + 0.75 * expit(x),
}
LIMITS = PerturbThresholds()


def latent(shape: str, n: int, models: int, rng: np.random.Generator) -> np.ndarray:
    """(models, n) log-odds of models of equal ability, correlated .75."""
    if shape == "two abilities":
        second = np.sqrt(0.3) * rng.standard_normal(n) * rng.normal(1, 0.6, (models, 1))
        return 2 * (
            np.sqrt(0.5) * rng.standard_normal(n)
            + second
            + np.sqrt(0.2) * rng.standard_normal((models, n))
        )
    common = {
        "heavy tails": lambda: rng.standard_t(3, n) / np.sqrt(3),
        "skewed": lambda: (rng.gamma(1.5, 1, n) - 1.5) / np.sqrt(1.5),
    }.get(shape, lambda: rng.standard_normal(n))()
    odds = 2 * (np.sqrt(0.75) * common + 0.5 * rng.standard_normal((models, n)))
    return odds * np.exp(0.5 * rng.standard_normal(n)) if shape == "slopes" else odds


def losses(
    kind: str, x: np.ndarray, others: np.ndarray, link: Callable, rng: np.random.Generator
) -> Callable:
    """(VARIANTS, n) chances under the variants as a function of how much is lost. x: log-odds of
    the tested model under the variants; others: (n,) mean chance of the references."""
    noise, where = np.abs(rng.standard_normal((VARIANTS, x.size))), rng.random(x.size) < 0.2
    style = rng.standard_normal(x.size)
    first = rng.integers(0, 4, x.size) == 0

    def made(size: float) -> np.ndarray:
        right = link(x)
        chances = {
            "shift": lambda: link(x - size),
            "lapses": lambda: right * max(1 - size, 0),
            "less sure": lambda: link(x * np.exp(-size)),
            "noise": lambda: link(x - 3 * size * noise),
            "style of an item's rewordings": lambda: link(x - size + 2 * size * style),
            "one topic": lambda: np.where(where, link(x - 6 * size), right),
            "letter bias": lambda: np.where(first, link(x + 2 * size), link(x - 3 * size)),
            "hard items": lambda: link(x - 2 * size * (right < 0.7)),
            "what others do not know": lambda: link(x - 6 * size * (1 - others)),
        }
        return np.broadcast_to(chances[kind](), noise.shape)

    return made


def cell(
    rng: np.random.Generator,
    *,
    shape: str = "",
    link: str = "logit",
    accuracy: float = 0.7,
    n: int = 1000,
    references: int = 5,
    harder: float = 0.3,
    kind: str = "",
    lost: float = 0.0,
    memory: float = 0.0,
    easier: float = 0.0,
    generalises: float = 0.0,
    all_hard: str = "",
    alike: float = 0.0,
) -> PerturbCell:
    """lost: points lost to `kind` beyond what harder variants cost all; memory: share of the items
    remembered, in proportion to the references' chance to the power `easier`; generalises: share of
    a remembered item's variants that are right for it, too; all_hard: items ("hard", "easy") on
    which rewording takes another 1 from all log-odds; alike: standard deviation of what an item's
    rewordings take together, from each model another amount."""
    chance = LINKS[link]
    spread = np.clip(accuracy + 0.06 * np.linspace(-1, 1, references), 0.3, 0.97)
    odds = latent(shape, n, references + 1, rng)
    odds = np.stack(
        [
            row + brentq(lambda a, row=row, at=at: chance(row + a).mean() - at, -30, 30, xtol=1e-3)
            for row, at in zip(odds, (accuracy, *spread), strict=True)
        ]
    )
    level = odds.mean(axis=0) - odds.mean()
    cost = harder + (level > 0 if all_hard == "easy" else level < 0) * bool(all_hard)
    cost = cost + alike * rng.standard_normal(odds.shape)
    published, reworded = chance(odds), chance(odds - cost)
    others = published[1:].mean(axis=0)
    variants = np.broadcast_to(reworded[0], (VARIANTS, n))
    if kind:
        made = losses(kind, odds[0] - cost[0], others, chance, rng)
        variants = made(
            brentq(lambda s: reworded[0].mean() - made(s).mean() - lost, 0, 9, xtol=1e-3)
        )
    weight = others**easier
    known = rng.random(n) < memory * weight / weight.mean()
    right = (rng.random((1, n)) < published[0]) | known
    reworded_right = (rng.random((VARIANTS, n)) < variants) | (
        known & (rng.random((VARIANTS, n)) < generalises)
    )
    models = [Wordings("model 0", right.astype(float), reworded_right.astype(float))]
    for k in range(1, references + 1):
        o, v = rng.random((1, n)) < published[k], rng.random((VARIANTS, n)) < reworded[k]
        models.append(Wordings(f"model {k}", o.astype(float), v.astype(float)))
    ids, clusters = tuple(map(str, range(n))), np.arange(n)
    return PerturbCell(
        "b", ids, clusters, np.full(n, 4), models[0], tuple(models[1:]), BrokenShare(150, 0)
    )


def rates(name: str, models: int, **world: object) -> str:
    rng, called = np.random.default_rng(zlib.crc32(name.encode())), np.zeros(2)
    for _ in range(models):
        now = run_tests(cell(rng, **world), LIMITS, rng=rng, n_draws=40)
        tested = now.beyond_p is not None
        called += [
            tested and p <= LIMITS.alpha for p in (now.reference_p, max(now.reference_p, now.own_p))
        ]
    before, after = 100 * called / models
    return f"| {name} | {before:.1f} | {after:.1f} |"


WORLDS: dict[str, dict[str, object]] = {
    **{
        f"memory of 15 %, {s}": {"memory": 0.15, "shape": s}
        for s in ("normal", "slopes", "heavy tails", "skewed")
    },
    "memory of 15 %, two abilities": {"memory": 0.15, "shape": "two abilities"},
    **{
        f"memory of 15 %, {link}": {"memory": 0.15, "link": link}
        for link in ("probit", "cloglog", "guessing")
    },
    "memory of 50 %": {"memory": 0.5},
    "memory of 50 %, guessing": {"memory": 0.5, "link": "guessing"},
    "memory of 15 %, guessing, 3,000 items, 8 references": {
        "memory": 0.15,
        "link": "guessing",
        "n": 3000,
        "references": 8,
    },
    "memory of 50 %, accuracy .92": {"memory": 0.5, "accuracy": 0.92},
    "memory of 50 %, accuracy .4": {"memory": 0.5, "accuracy": 0.4},
    **{
        f"memory of {m:.0%}, {g:.0%} of it general": {"memory": m, "generalises": g}
        for m, g in ((0.5, 1 / 3), (0.5, 0.5), (0.3, 1 / 3), (1.0, 0.5))
    },
    "memory of 50 %, 50 % of it general, 3,000 items, 8 references": {
        "memory": 0.5,
        "generalises": 0.5,
        "n": 3000,
        "references": 8,
    },
    "memory of 50 %, 300 items, 3 references": {"memory": 0.5, "n": 300, "references": 3},
    "memory of 15 %, 3,000 items, 8 references": {"memory": 0.15, "n": 3000, "references": 8},
    "memory of 30 %, easy items more often": {"memory": 0.3, "easier": 1.0},
    "memory of 30 %, easy items much more often": {"memory": 0.3, "easier": 2.0},
    **{
        f"shift of 5 points, {s}": {"kind": "shift", "lost": 0.05, "shape": s}
        for s in ("normal", "slopes", "heavy tails", "skewed", "two abilities")
    },
    **{
        f"shift of 5 points, {link}": {"kind": "shift", "lost": 0.05, "link": link}
        for link in ("probit", "cloglog", "guessing")
    },
    **{
        f"{kind}, 8 points": {"kind": kind, "lost": 0.08}
        for kind in (
            "shift",
            "lapses",
            "less sure",
            "noise",
            "one topic",
            "letter bias",
            "hard items",
            "style of an item's rewordings",
            "what others do not know",
        )
    },
    **{
        f"shift of 5 points, {kind} items harder for all": {
            "kind": "shift",
            "lost": 0.05,
            "all_hard": kind,
        }
        for kind in ("hard", "easy")
    },
    "shift of 5 points, each model's rewordings of an item alike": {
        "kind": "shift",
        "lost": 0.05,
        "alike": 1.0,
    },
    "memory of 15 %, hard items harder for all": {"memory": 0.15, "all_hard": "hard"},
    "memory of 15 %, each model's rewordings of an item alike": {"memory": 0.15, "alike": 1.0},
    "shift of 5 points, 300 items, 3 references": {
        "kind": "shift",
        "lost": 0.05,
        "n": 300,
        "references": 3,
    },
    "shift of 5 points, 3,000 items, 8 references": {
        "kind": "shift",
        "lost": 0.05,
        "n": 3000,
        "references": 8,
    },
    "shift of 8 points, 3,000 items, 8 references": {
        "kind": "shift",
        "lost": 0.08,
        "n": 3000,
        "references": 8,
    },
}

if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    print("| tested models | before | now |\n| --- | --- | --- |")
    for label, made in WORLDS.items():
        print(rates(label, count, **made), flush=True)
