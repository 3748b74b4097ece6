"""Every code of the sweep has a sentence, and every sentence can be said in one breath."""

import inspect
import re
from pathlib import Path

import pytest

import audit.sweep
from audit.judging.ladder import NO_ROOM
from audit.judging.result import Reason, sentence
from audit.sweep.texts import CANNOT_EXCLUDE, NOT_RUN, TEXTS
from audit.sweep.vocabulary import Verdict

SOURCE = "\n".join(
    p.read_text(encoding="utf-8") for p in Path(audit.sweep.__file__).parent.rglob("*.py")
)
NUMBERS = {
    "routers": [1, 2],
    "controls": ["direct", "ensemble"],
    "ensemble_routers": [3],
    "odds_ratio": 3.0,
    "margin": 0.0123,
    "reference": "other",
    "gain": 0.12345,
    "sd": 0.0212,
    "mean": -0.00123,
    "low": -0.01234,
    "high": 0.02345,
    "n": 1200,
    "limit": 0.04321,
    "effect": 0.05,
    "least": 15,
    "p": 0.0304,
    "drop": 0.1234,
    "imputed": True,
    "side": "noisy",
    "estimate": 0.0111,
    "df": 1,
    "capped": True,
    "sides": ["noisy", "clean"],
    "up_to": 8.0,
    "runs": 1,
    "slope": 0.0123,
    "rejected": 1,
    "pairs": 6,
    "alpha": 0.05,
    "models": 3,
    "count": 1,
    "excess": ["m on b"],
    "items": 1200,
    "lowest": -0.0123,
    "highest": 0.2345,
    "lowest_model": "m",
    "highest_model": "o",
    "p_improve": 0.01,
    "p_degrade": 0.2,
    "up": 1.25,
    "down": -2.0,
    "name": "H2",
    "error": "One model.",
    "model": "m",
    "benchmark": "b",
    "why": ["too few", "too many"],
    "score": 0.7123,
    "loss": 0.1,
    "about": "run_once",
    "aided": True,
    "stated": True,
}


def message(code: str, **numbers: object) -> str:
    text = TEXTS[code]
    every = NUMBERS | numbers
    if callable(text) and not any(
        p.kind is p.VAR_KEYWORD for p in inspect.signature(text).parameters.values()
    ):
        every = {name: every[name] for name in inspect.signature(text).parameters}
    return sentence(Reason(code, every), TEXTS)


@pytest.mark.parametrize("code", TEXTS)
def test_every_code_is_a_plain_sentence(code: str) -> None:
    for about in ("run_once", "beats_no_control"):
        text = message(code, about=about)
        assert text.endswith(".") and "{" not in text and not re.search(r"\d\.\d{2}", text), text
        assert all(
            len(part.split()) <= 30 for part in re.split(r"[.:;]\s", re.sub(r"\(.*?\)", "", text))
        ), text


def test_codes_in_use_and_texts_are_the_same() -> None:
    used = set(re.findall(r'because\(\s*"(\w+)"', SOURCE)) | {NO_ROOM}  # which the ladder gives
    assert used <= {*TEXTS, *NOT_RUN} and set(NOT_RUN) == set(CANNOT_EXCLUDE)
    made = tuple(re.findall(r'because\(\s*f"(\w+)\{', SOURCE))
    assert all(
        code in used or code.startswith(made) or f'"{code}"' in SOURCE.replace(f'"{code}":', "")
        for code in TEXTS
    )
    assert {f"headline_{verdict}" for verdict in Verdict} <= set(TEXTS)
