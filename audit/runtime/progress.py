"""What a person sees on stderr while an audit runs: a live display on a terminal, plain lines elsewhere.

Rates count what this start did; rows found from an earlier start are shown as done but not as speed."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from audit.exits import QUIET, lines, one_line

if TYPE_CHECKING:
    import pyarrow as pa

Clock = Callable[[], float]
Spent = Callable[[str, Mapping[str, int], float], float | None]
_PLAIN_EVERY_S = 10.0
_LOADING_EVERY_S = 15.0
_STILL_S = 45.0  # without a stored answer: a person is told within a minute what is waited for
_WIDE = 80  # columns of a terminal
_ETA_AFTER_S = 10.0  # from the first shard on


@dataclass(frozen=True)
class Engines:
    """How many were asked how they do, answered that, and died; requests that wait there, and that they are done with
    since they were last asked. trouble: what endpoints last answered in place of a reply."""

    asked: int
    answer: int
    died: int
    in_flight: int
    done: int
    trouble: str = ""

    @classmethod
    def of(cls, several: Sequence[Engines]) -> Engines:
        """Of several models together."""
        *counts, trouble = zip(*map(astuple, several), strict=True)
        asked, answer, died, in_flight, done = map(sum, counts)
        return cls(asked, answer, died, in_flight, done, " ".join(filter(None, trouble)))


def still(seconds: float, engines: Engines, cluster: str) -> str:
    """Of a run that stored nothing for so long, in words: calm where requests are being answered.

    >>> still(50, Engines(1, 1, 0, in_flight=352, done=120), "")
    'still answering: 120 more requests done, 352 in flight at 1 of 1 engines; answers are stored a shard at a time.'
    """
    died = f" ({engines.died} died)" if engines.died else ""
    where = f"{engines.in_flight:,} in flight at {engines.answer} of {engines.asked} engines{died}"
    idle = engines.answer == engines.asked and not engines.in_flight
    if engines.done and not idle:
        silent = engines.answer + engines.died < engines.asked
        rest = cluster if silent else "answers are stored a shard at a time."
        return f"still answering: {engines.done:,} more requests done, {where}; {rest}"
    if idle:
        why = f"answers are not written, or the network between stages and engines is cut; {cluster}"
    else:
        why = engines.trouble or f"engines load, start again or are on a node that does not answer; {cluster}"
    return f"nothing was stored for {seconds:.0f} s, no request answered, {where}: {why}"


_COUNTED = ("rows", "errors", "unparsed", "scored", "correct")  # not of rows that an earlier start stored


@dataclass
class _ModelState:
    arms: dict[str, Counter[str]]  # of each its rows, total and done, and _COUNTED
    resumed: int = 0
    stored: int = 0  # by this start
    tokens: int = 0  # by this start
    sums: Counter[str] = field(default_factory=Counter)  # tokens by column, of every row that was counted
    retries: int = 0
    started: float | None = None
    loading_since: float | None = None
    first: tuple[float, int] | None = None  # when the first shard came, and its rows
    moved: float = 0.0  # when the last one came
    told: float = 0.0  # when its last plain line was printed


class Display:
    """Progress of a run. Safe to call from one thread; a second one only repaints."""

    def __init__(self, *, console: Console | None = None, quiet: bool = False, clock: Clock | None = None) -> None:
        """clock: seconds; of a run that is looked at from outside, when it is."""
        self._clock = clock or time.monotonic
        self._console = console or Console(stderr=True, highlight=False)
        self._quiet = quiet or QUIET.get()
        self._models: dict[str, _ModelState] = {}
        self._live: Live | None = None

    def __enter__(self) -> Display:
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.update(self.table())
            self._live.stop()
            self._live = None

    def note(self, text: str) -> None:
        """Something a person should know."""
        self.stage(f"note: {text}")

    def begin(self, totals: Mapping[str, Mapping[str, int]], spent: Spent | None = None, currency: str = "") -> None:
        """Rows to do per model and arm. spent: a model, its tokens by column, seconds -> its cost so far."""
        self._begun, self._spent, self._currency = self._clock(), spent, currency
        self._models = {
            name: _ModelState({arm: Counter(total=total) for arm, total in arms.items()})
            for name, arms in totals.items()
        }
        if self._console.is_terminal and not self._quiet:
            self._live = Live(get_renderable=self.table, console=self._console, refresh_per_second=4)
            self._live.start()

    def resumed(self, name: str, done: Mapping[str, int]) -> None:
        """Rows that an earlier start already stored."""
        state = self._models[name]
        for arm, rows in done.items():
            state.arms[arm]["done"] = rows
        state.resumed = sum(done.values())
        if state.resumed:
            self.stage(f"{name}: {state.resumed} of {_sum(state, 'total')} rows are already there")

    @contextmanager
    def loading(self, name: str, usual: str = "") -> Iterator[None]:
        """Engine loading takes a minute; say so while it lasts. usual: how long, in words."""
        state, since = self._models[name], time.monotonic()
        state.loading_since = since
        self.stage(f"{name}: loading the engine" + (f" ({usual})" if usual else ""))

        def still_loading() -> None:
            if self._live is None:
                self.stage(f"{name}: still loading the engine, {time.monotonic() - since:.0f} s")

        try:
            with _every(_LOADING_EVERY_S, still_loading):
                yield
        finally:
            state.loading_since = None
            state.started = self._clock()
        self.stage(f"{name}: engine ready after {time.monotonic() - since:.0f} s")

    @contextmanager
    def watching(self, name: str, why: Callable[[float], str]) -> Iterator[None]:
        """While answers are stored: where none comes, say what is waited for (`why` of the seconds, asked then)."""
        state = self._models[name]
        state.moved = told = time.monotonic()

        def look() -> None:
            nonlocal told
            if time.monotonic() - max(state.moved, told) >= _STILL_S:
                self.stage(f"{name}: {why(time.monotonic() - state.moved)}")
                told = time.monotonic()

        with _every(_STILL_S / 10, look):
            yield

    def kept(self, name: str) -> None:
        """Instead of `loading`, of an engine that an earlier run of this process left."""
        self._models[name].started = self._clock()
        self.stage(f"{name}: the engine is there already")

    def counts(self, name: str, counts: pa.Table) -> None:
        """One stored shard's counts (`shards.complete.count_answers`)."""
        state = self._models[name]
        for row in counts.to_pylist():
            state.arms[row["arm"]].update({c: row[c] for c in _COUNTED}, done=row["rows"])
            tokens = {c: row[c] for c in row if c.endswith("_tokens") and not c.endswith("cached_tokens")}
            state.sums.update(tokens)
            if state.started is not None:
                state.stored += row["rows"]
                state.tokens += sum(tokens.values())
        state.moved = now = self._clock()
        if state.started is not None:
            state.first = state.first or (now, state.stored)
        if self._live is None and now - state.told >= _PLAIN_EVERY_S:
            state.told = now
            self.stage(self._line(name, state))

    def retries(self, name: str, retries: int) -> None:
        state = self._models[name]
        state.retries += retries
        if self._live is None:
            self.stage(self._line(name, state))

    def _line(self, name: str, state: _ModelState) -> str:
        arms = "  ".join(f"{arm} {a['done']}/{a['total']}" for arm, a in state.arms.items())
        return f"{name}: {arms}  {self._rate(name, state)}{_trouble(state)}"

    def table(self) -> Group:
        """Rows, accuracy so far and unparsed share of every model and arm; below each model's pace and cost. A narrow
        table has no bars, and errors below alone, so that names are whole."""
        wide = self._console.width >= _WIDE
        table = Table(box=None, pad_edge=False)
        table.add_column("model", overflow="fold")
        for heading in ("arm", *[""] * wide, "done", "accuracy", "unparsed", *["errors"] * wide):
            table.add_column(heading, justify="left" if heading in ("arm", "") else "right", no_wrap=heading != "")
        footers = []
        for name, state in self._models.items():
            for arm, a in state.arms.items():
                bar = ProgressBar(total=max(1, a["total"]), completed=a["done"], width=20)
                shares = ((a["correct"], a["scored"]), (a["unparsed"], a["rows"]))
                told = (f"{a['done']}/{a['total']}", *(f"{100 * k / n:.1f} %" if n else "" for k, n in shares))
                names = Text(one_line(name)), Text(one_line(arm))
                table.add_row(*names, *[bar] * wide, *told, *[str(a["errors"])] * wide)
            if state.loading_since is not None:
                footers.append(f"{name}: loading the engine, {time.monotonic() - state.loading_since:.0f} s")
            elif state.started is not None:
                footers.append(f"{name}: {self._rate(name, state)}{_trouble(state)}")
        return Group(table, *(Text(one_line(footer)) for footer in footers))

    def money(self, name: str) -> float | None:
        """Spent by this start; None where a price is not known."""
        if self._spent is None:
            return None
        return self._spent(name, self._models[name].sums, self._clock() - self._begun)

    def _rate(self, name: str, state: _ModelState) -> str:
        """Time since the beginning, pace, time left and cost so far, as far as each is known."""
        now = self._clock()
        said = [f"{_clock(now - self._begun)} elapsed"]
        if state.started is not None and state.stored:
            said.append(f"{state.tokens / max(1e-9, now - state.started):,.0f} tokens/s")
        if state.first is not None and now - state.first[0] >= _ETA_AFTER_S and state.stored > state.first[1]:
            # The first shards come late, as their answers queue behind the preparing calls of all chunks in flight:
            # what counts is the pace since then.
            pace = (state.stored - state.first[1]) / (now - state.first[0])
            left = _sum(state, "total") - _sum(state, "done")
            said.append(f"{pace:.2g} rows/s" if pace < 10 else f"{pace:,.0f} rows/s")
            said += [f"ETA {_clock(left / pace)}"] * (left > 0)
        if money := self.money(name):  # nothing of a scripted model, or before the first answer
            said.append(f"{money:,.2f} {self._currency} {'by this start' if state.resumed else 'so far'}")
        return "  ".join(said)

    def stage(self, text: str) -> None:
        if self._quiet:
            return
        self._console.print(Text(lines(text)), soft_wrap=True)  # Text: nothing in it is markup, but it keeps escapes


@contextmanager
def _every(seconds: float, act: Callable[[], None]) -> Iterator[None]:
    """Meanwhile, in a thread of its own, again and again."""
    stop = threading.Event()

    def repeat() -> None:
        while not stop.wait(seconds):
            act()

    threading.Thread(target=repeat, daemon=True).start()
    try:
        yield
    finally:
        stop.set()


def usual_load(engines: Sequence[str], earlier_s: Sequence[float]) -> str:
    """Return how long engines usually load: as last in this run, else as in docs/findings/measured.md; "" at once."""
    if "vllm" not in engines:
        return ""
    if earlier_s:
        return f"{earlier_s[-1]:.0f} s the last time"
    return "usually half a minute to one and a half on CPUs; on GPUs several for a large model, and its download first"


def _sum(state: _ModelState, what: str) -> int:
    return sum(arm[what] for arm in state.arms.values())


def _trouble(state: _ModelState) -> str:
    errors = _sum(state, "errors")
    return (f"  {errors} errors" if errors else "") + (f"  {state.retries} retries" if state.retries else "")


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
