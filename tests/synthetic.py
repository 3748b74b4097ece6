"""Outcomes of a model that never existed, with effects and faults of known size (pure).

A procedure can only be trusted where the truth is known. `audit.sweep.simulation` draws states
alone; these have texts.

The answer model is `audit.statistics.item_response`'s.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from outcome_tables import Outcome
from scipy.special import ndtr

from audit.core.records import Reading, Setting
from audit.statistics.item_response import draw_difficulties, shift, tastes
from audit.sweep.design import Arm, Draws

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

_PLACES = (
    "Aldham",
    "Brenton",
    "Carrow",
    "Dunmore",
    "Eastleigh",
    "Farsley",
    "Grimsby",
    "Halton",
    "Ilkley",
    "Kelso",
)
_GOODS = (
    "sacks of rice",
    "crates of apples",
    "bundles of wool",
    "jars of honey",
    "boxes of nails",
    "rolls of cloth",
)
_PEOPLE = ("merchant", "farmer", "shopkeeper", "teacher", "baker", "builder")
_NOISE = (
    "The market was unusually loud that morning.",
    "A ferry had been delayed by fog the day before.",
    "The town hall clock had recently been repaired.",
    "It is said that the harbour froze over in that winter.",
)


@dataclass(frozen=True)
class Faults:
    """Shares (0-1) of things that go wrong, each for one gate to find.

    unparsed, truncated: of worker replies. errors: of rows. leak: of router messages that state the
    answer. noop: of noisy presentations that are the clean one. lossy: of clean messages that drop
    an option."""

    unparsed: float = 0.0
    truncated: float = 0.0
    errors: float = 0.0
    leak: float = 0.0
    noop: float = 0.0
    lossy: float = 0.0


def draw_latent(shape: tuple[int, ...], correlation: float, rng: np.random.Generator) -> FloatArray:
    """Uniform; the first axis (the settings of one item) is correlated on the normal scale."""
    return (
        rng.random(shape) if correlation <= 0 else np.asarray(ndtr(tastes(shape, correlation, rng)))
    )


def synthetic_outcomes(
    n_questions: int,
    routers: Sequence[int] = tuple(range(1, 10)),
    *,
    rng: np.random.Generator,
    gain: float | Mapping[int, float] = 0.0,
    model: str = "synthetic",
    benchmark: str = "synthetic",
    clean_accuracy: float = 0.7,
    discordance: float = 0.2,
    clean_replicates: int = 2,
    with_direct: bool = True,
    with_ensemble: bool = True,
    direct_gain: float = 0.0,
    ensemble_gain: float | Mapping[int, float] = 0.0,
    draws: str = "independent",
    parse_rate: float = 1.0,
    n_options: int = 4,
    group_size: int = 1,
    reading: str = "letter",
    faults: Faults | None = None,
) -> list[Outcome]:
    """Rows of a router-worker sweep over one model and benchmark, in the order question, setting.

    gain, direct_gain, ensemble_gain: true difference (0-1) from clean accuracy of the noisy arm
    (one number or by r), of `direct`, and of `forward_full` with r > 1. parse_rate: share of
    readable replies (the same as Faults(unparsed=1 - parse_rate)). group_size: questions a group.
    Raises DataError when the figures fit no model."""
    faults = faults or Faults()
    unparsed = max(faults.unparsed, 1 - parse_rate)
    theta = draw_difficulties(n_questions, clean_accuracy, discordance, rng)
    correct: dict[Setting, BoolArray] = {}
    for k in range(clean_replicates):
        correct[Setting(Arm.FORWARD_FULL, 1, k)] = rng.random(n_questions) < theta
    if with_direct:
        correct[Setting(Arm.DIRECT, 0)] = rng.random(n_questions) < shift(
            theta, direct_gain, clean_accuracy
        )
    rho = 0.5 if Draws(draws) == Draws.NESTED else 0.0  # correlation between the r
    arms: list[tuple[Arm, Sequence[int], float | Mapping[int, float]]] = [
        (Arm.NOISY_REWRITE, routers, gain)
    ]
    if with_ensemble:
        arms.append((Arm.FORWARD_FULL, [r for r in routers if r > 1], ensemble_gain))
    for arm, rs, effect in arms:
        chances = [
            shift(theta, effect if isinstance(effect, int | float) else effect[r], clean_accuracy)
            for r in rs
        ]
        latent = draw_latent((len(rs), n_questions), rho, rng)
        for k, r in enumerate(rs):
            correct[Setting(arm, r)] = np.asarray(latent[k] < chances[k])
    writer = _Writer(
        model=model,
        benchmark=benchmark,
        draws=Draws(draws),
        reading=Reading(reading),
        n_options=n_options,
        group_size=group_size,
        unparsed=unparsed,
        faults=faults,
        rng=rng,
    )
    settings = sorted(correct)
    return [
        row
        for i in range(n_questions)
        for row in writer.rows(i, [(s, bool(correct[s][i])) for s in settings])
    ]


@dataclass(frozen=True)
class _Writer:
    """Writes plausible texts around known outcomes."""

    model: str
    benchmark: str
    draws: Draws
    reading: Reading
    n_options: int
    group_size: int
    unparsed: float
    faults: Faults
    rng: np.random.Generator
    engine: str = field(default="synthetic-0")

    def rows(self, i: int, settings: Sequence[tuple[Setting, bool]]) -> list[Outcome]:
        """The rows of question i."""
        stem, options, gold = self._question(i)
        clean = _render(stem, options)
        nested: dict[str, list[str]] = {}
        rows = []
        for setting, correct in settings:
            drawn = nested.setdefault(setting.arm, []) if self.draws == Draws.NESTED else []
            while len(drawn) < setting.level:
                drawn.append(self._message(setting.arm, stem, options, gold, clean))
            messages = tuple(drawn[: setting.level])
            if setting.arm == Arm.NOISY_REWRITE and self.rng.random() < self.faults.noop:
                messages = (clean,) * setting.level
            rows.append(self._row(i, setting, stem, options, gold, clean, messages, correct))
        return rows

    def _question(self, i: int) -> tuple[str, tuple[str, ...], int]:
        goods, place = _GOODS[i % len(_GOODS)], _PLACES[(i // 7) % len(_PLACES)]
        have, sold = 40 + (i * 7) % 61, 3 + (i * 5) % 17
        stem = (
            f"A {_PEOPLE[i % len(_PEOPLE)]} in {place} keeps {have} {goods} in store number {i + 1} and sells {sold} "
            f"of them before noon. How many {goods} are left in the store?"
        )
        gold = int(self.rng.integers(self.n_options))
        unit = goods.split()[0]
        # the right number at the gold position, neighbours spaced by three around it: all different
        options = tuple(f"{have - sold + 3 * (k - gold)} {unit}" for k in range(self.n_options))
        return stem, options, gold

    def _message(self, arm: str, stem: str, options: tuple[str, ...], gold: int, clean: str) -> str:
        if arm == Arm.FORWARD_FULL:
            if self.rng.random() < self.faults.lossy:
                return _render(stem, options, without=(gold + 1) % len(options))
            return clean
        words = stem.split()
        keep = self.rng.random(len(words)) > 0.2
        text = " ".join(w for w, k in zip(words, keep, strict=True) if k)
        noise = _NOISE[int(self.rng.integers(len(_NOISE)))]
        without = int(self.rng.integers(len(options))) if self.rng.random() < 0.3 else None
        message = f"{noise} {_render(text, options, without=without)}"
        if self.rng.random() < self.faults.leak:
            message += f"\nThe correct answer is {_letter(gold)}."
        return message

    def _row(
        self,
        i: int,
        setting: Setting,
        stem: str,
        options: tuple[str, ...],
        gold: int,
        clean: str,
        messages: tuple[str, ...],
        correct: bool,
    ) -> Outcome:
        error = "the engine gave no reply" if self.rng.random() < self.faults.errors else None
        truncated = self.rng.random() < self.faults.truncated
        parsed = error is None and not truncated and self.rng.random() >= self.unparsed
        answer = (
            gold
            if correct
            else int((gold + 1 + self.rng.integers(len(options) - 1)) % len(options))
        )
        scored = self.reading != Reading.LETTER
        response = (
            ""
            if scored or error
            else f"Answer: {_letter(answer)}"
            if parsed
            else "I cannot tell from this text"
        )
        finish = "error" if error else "scored" if scored else "length" if truncated else "stop"
        body = (
            "\n\n".join(f"Message {k + 1}:\n{m}" for k, m in enumerate(messages))
            if messages
            else clean
        )
        prompt = f"{body}\n\nReply with the letter of the right option only."
        return Outcome(
            model=self.model,
            model_revision="synthetic",
            benchmark=self.benchmark,
            question_id=f"{self.benchmark}-{i:05d}",
            group=f"{self.benchmark}-{i // self.group_size:05d}",
            arm=setting.arm,
            routers=setting.level,
            replicate=setting.replicate,
            draws=self.draws,
            reading=self.reading,
            question=stem,
            options=options,
            router_messages=messages,
            router_finish_reasons=("stop",) * len(messages),
            prompt=prompt,
            response=response,
            answer=answer if parsed else None,
            gold=gold,
            correct=correct if parsed else None,
            parsed=parsed,
            answer_form=("logprob" if scored else "strict") if parsed else "none",
            finish_reason=finish,
            option_logprobs=tuple(-1.0 if k == answer else -3.0 for k in range(len(options)))
            if scored
            else (),
            prompt_tokens=len(prompt.split()),
            cached_tokens=0,
            completion_tokens=0 if scored else len(response.split()),
            router_prompt_tokens=len(clean.split()) * len(messages),
            router_cached_tokens=0,
            router_completion_tokens=sum(len(m.split()) for m in messages),
            engine_id=self.engine,
            router_engine_ids=(self.engine,) * len(messages),
            seed=i,
            error=error,
        )


def _letter(index: int) -> str:
    return chr(ord("A") + index)


def _render(stem: str, options: Sequence[str], without: int | None = None) -> str:
    lines = [f"{_letter(k)}. {text}" for k, text in enumerate(options) if k != without]
    return "\n".join([f"Question: {stem}", "Options:", *lines])
