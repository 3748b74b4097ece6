"""Held-out items by a short word: a benchmark's named twin, or its own items after a date. Words in, words out.

`control_benchmark=auto` becomes the twin that conf/benchmark/NAME.yaml names. `fresh_after=DATE` splits a benchmark
with dates: items up to it are audited, items after it are held out.
"""

from collections.abc import Sequence

from audit.benchmarks.fresh import following
from audit.config import CONF_DIR, load_group, load_model_config
from audit.errors import ConfigError

AUTO, AFTER = "control_benchmark=auto", "fresh_after="
RELEASED = "released"  # fresh_after=released: the date of the tested model


def with_twin(words: Sequence[str]) -> list[str]:
    """The words with a control benchmark in place of the short word. ConfigError where there is none to be had.

    >>> with_twin(["benchmark=gsm8k", "control_benchmark=auto"])
    ['benchmark=gsm8k', 'control_benchmark=gsm1k']
    """
    after = [word for word in words if word.startswith(AFTER)]
    others = [word for word in words if word not in after]
    if after:
        return _split(others, after[-1].removeprefix(AFTER))
    if AUTO not in words:
        return others
    name = _value(words, "benchmark") or "elementary"
    return [f"control_benchmark={_twin_of(name)}" if word == AUTO else word for word in others]


def _twin_of(name: str) -> str:
    twins = {path.stem: load_group("benchmark", path.stem).get("twin") for path in (CONF_DIR / "benchmark").glob("*")}
    if found := twins.get(name):
        return str(found)
    known = ", ".join(f"{one} (its twin is {twin})" for one, twin in sorted(twins.items()) if twin)
    raise ConfigError(
        f"benchmark={name} has no held-out twin. Known: {known}. With dates, write fresh_after=2024-06; "
        "otherwise name your own held-out items, such as control_benchmark=mcq_file control_benchmark.path=new.jsonl."
    )


def _split(words: Sequence[str], date: str) -> list[str]:
    """The benchmark up to a date, and the same files after it as the control."""
    if any(word.startswith("control_benchmark") for word in words):
        raise ConfigError(f"{AFTER}{date} makes the control benchmark. Leave out control_benchmark=...")
    name = _value(words, "benchmark")
    if name is None:
        raise ConfigError(f"{AFTER}{date} needs a benchmark whose items have dates, such as benchmark=mcq_file.")
    if date == RELEASED:
        date = _released(words)
    first = following(date)
    ours = [word for word in words if word.partition("=")[0].partition(".")[0] == "benchmark"]
    called = _value(words, "benchmark.name") or name
    control = [f"control_{word}" for word in ours if not word.startswith("benchmark.name=")]
    control += [f"control_benchmark.dated_after={date}", f"control_benchmark.date={first}"]
    return [*words, f"benchmark.dated_until={date}", *control, f"control_benchmark.name={called}_from_{first}"]


def _released(words: Sequence[str]) -> str:
    name = _value(words, "model") or "smollm2_135m"
    released = load_model_config(name).released
    if not released:
        raise ConfigError(f"conf/model/{name}.yaml does not say when it was released. Write the date: {AFTER}2024-06.")
    return released


def _value(words: Sequence[str], key: str) -> str | None:
    return next((word.partition("=")[2] for word in reversed(words) if word.partition("=")[0] == key), None)
