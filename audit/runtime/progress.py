"""Show the progress of an audit on stderr: a live display on a terminal, plain lines elsewhere.

Rows that were stored before a restart count as done, but are not used to compute the speed.
"""

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

from audit.core.exits import QUIET, lines, one_line

if TYPE_CHECKING:
    import pyarrow as pa

Clock = Callable[[], float]
Spent = Callable[[str, Mapping[str, int], float], float | None]
_PLAIN_EVERY_S = 10.0
_LOADING_EVERY_S = 15.0
# After this many seconds without a stored answer, the display shows what the run waits for.
_STILL_S = 45.0
_WIDE = 80  # columns of a wide terminal
_ETA_AFTER_S = 10.0  # The ETA is shown this many seconds after the first shard.


@dataclass(frozen=True)
class Engines:
    """Hold the combined state of the engines of one or several models.

    Parameters
    ----------
    polled, answer, died : int
        Number of engines whose state was requested, number that replied, and number that died.
    in_flight : int
        Number of unanswered requests at these engines.
    done : int
        Number of requests that these engines finished since their state was last requested.
    trouble : str
        The last error of the endpoints, or the time limit for their replies.
    """

    polled: int
    answer: int
    died: int
    in_flight: int
    done: int
    trouble: str = ""

    @classmethod
    def of(cls, several: Sequence[Engines]) -> Engines:
        """Combine the states of several models into one state."""
        *counts, trouble = zip(*map(astuple, several), strict=True)
        polled, answer, died, in_flight, done = map(sum, counts)
        return cls(polled, answer, died, in_flight, done, " ".join(filter(None, trouble)))


def still(seconds: float, engines: Engines, cluster: str) -> str:
    """Describe a run that has stored no answer for some time. If requests are still being answered,
    the text is not a warning.

    Parameters
    ----------
    seconds : float
        The time.
    engines : Engines
        State of the engines that the run uses.
    cluster : str
        The state of the cluster.

    Returns
    -------
    str
        A sentence.

    Examples
    --------
    >>> still(50, Engines(1, 1, 0, in_flight=352, done=120), "").partition(";")[0]
    'still answering: 120 more requests done, 352 in flight at 1 of 1 engines'
    """
    died = f" ({engines.died} died)" if engines.died else ""
    where = f"{engines.in_flight:,} in flight at {engines.answer} of {engines.polled} engines{died}"
    idle = engines.answer == engines.polled and not engines.in_flight
    if engines.done and not idle:
        silent = engines.answer + engines.died < engines.polled
        rest = cluster if silent else "answers are stored a shard at a time."
        return f"still answering: {engines.done:,} more requests done, {where}; {rest}"
    if idle:
        why = (
            f"answers are not written, or the network between stages and engines is cut; {cluster}"
        )
    else:
        why = (
            engines.trouble
            or f"engines load, start again or are on a node that does not answer; {cluster}"
        )
    return f"nothing was stored for {seconds:.0f} s, no request answered, {where}: {why}"


# These columns in the counts of a shard are summed for each arm.
_COUNTED = (
    "rows",
    "errors",
    "unparsed",
    "scored",
    "correct",
)


@dataclass
class _ModelState:
    arms: dict[str, Counter[str]]  # for each arm: total rows, done rows, and the columns _COUNTED
    resumed: int = 0
    stored: int = 0  # number of rows stored since this start
    tokens: int = 0  # number of tokens since this start
    # tokens of all counted rows, by column name
    sums: Counter[str] = field(default_factory=Counter)
    retries: int = 0
    started: float | None = None
    loading_since: float | None = None
    first: tuple[float, int] | None = None  # time and number of rows of the first shard
    moved: float = 0.0  # time of the last stored shard
    printed: float = 0.0  # time when the last plain line was printed


class Display:
    """Show the progress of a run on the terminal.

    Only one thread may call the methods. A second thread redraws the display.

    Parameters
    ----------
    console : Console or None
        The console to print on.
    quiet : bool
        Whether nothing is printed.
    clock : callable or None
        Function that returns the time in seconds. In a process that watches the run of another
        process, it returns the time of the displayed state.
    """

    def __init__(
        self, *, console: Console | None = None, quiet: bool = False, clock: Clock | None = None
    ) -> None:
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
        """Print a note to the user."""
        self.stage(f"note: {text}")

    def begin(
        self,
        totals: Mapping[str, Mapping[str, int]],
        spent: Spent | None = None,
        currency: str = "",
    ) -> None:
        """Begin the display, with empty counts.

        Parameters
        ----------
        totals : mapping
            Expected numbers of rows for each model and arm.
        spent : callable or None
            Function that returns the cost of a model so far. Its arguments are the model's name,
            the number of tokens by column, and the elapsed seconds.
        currency : str
            The currency of the cost.
        """
        self._begun, self._spent, self._currency = self._clock(), spent, currency
        self._models = {}
        for name, arms in totals.items():
            self._models[name] = _ModelState(
                {arm: Counter(total=total) for arm, total in arms.items()}
            )
        if self._console.is_terminal and not self._quiet:
            self._live = Live(
                get_renderable=self.table, console=self._console, refresh_per_second=4
            )
            self._live.start()

    def resumed(self, name: str, done: Mapping[str, int]) -> None:
        """Count the rows that were stored before the run was resumed."""
        state = self._models[name]
        for arm, rows in done.items():
            state.arms[arm]["done"] = rows
        state.resumed = sum(done.values())
        if state.resumed:
            self.stage(f"{name}: {state.resumed} of {_sum(state, 'total')} rows are already stored")

    @contextmanager
    def loading(self, name: str, usual: str = "") -> Iterator[None]:
        """Report that an engine is loading while the `with` block runs.

        Parameters
        ----------
        name : str
            Name of the model.
        usual : str
            Text that states the usual loading time.
        """
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
        """Report what the run waits for whenever no answer is stored for some time.

        The reports end with the `with` block.

        Parameters
        ----------
        name : str
            Name of the model.
        why : callable
            Function that returns the reason. Its argument is the number of seconds without a stored
            answer.
        """
        state = self._models[name]
        state.moved = reported = time.monotonic()

        def look() -> None:
            nonlocal reported
            if time.monotonic() - max(state.moved, reported) >= _STILL_S:
                self.stage(f"{name}: {why(time.monotonic() - state.moved)}")
                reported = time.monotonic()

        with _every(_STILL_S / 10, look):
            yield

    def engine_kept(self, name: str) -> None:
        """Report that an earlier run of this process has loaded the engine already."""
        self._models[name].started = self._clock()
        self.stage(f"{name}: the engine is loaded already")

    def counts(self, name: str, counts: pa.Table) -> None:
        """Add the counts of one stored shard, which `shards.complete.count_answers` returned."""
        state = self._models[name]
        for row in counts.to_pylist():
            state.arms[row["arm"]].update({c: row[c] for c in _COUNTED}, done=row["rows"])
            tokens = {}
            for c in row:
                if c.endswith("_tokens") and not c.endswith("cached_tokens"):
                    tokens[c] = row[c]
            state.sums.update(tokens)
            if state.started is not None:
                state.stored += row["rows"]
                state.tokens += sum(tokens.values())
        state.moved = now = self._clock()
        if state.started is not None:
            state.first = state.first or (now, state.stored)
        if self._live is None and now - state.printed >= _PLAIN_EVERY_S:
            state.printed = now
            self.stage(self._line(name, state))

    def retries(self, name: str, retries: int) -> None:
        """Add a number of retried endpoint calls to the displayed total."""
        state = self._models[name]
        state.retries += retries
        if self._live is None:
            self.stage(self._line(name, state))

    def _line(self, name: str, state: _ModelState) -> str:
        arms = "  ".join(f"{arm} {a['done']}/{a['total']}" for arm, a in state.arms.items())
        return f"{name}: {arms}  {self._rate(name, state)}{_trouble(state)}"

    def table(self) -> Group:
        """Return the displayed table: rows, accuracy and unparsed share of every model and arm.

        Lines with the pace and the cost of each model follow. On a narrow terminal, the table has
        no progress bars and no column of errors, so that names are not cut off.
        """
        wide = self._console.width >= _WIDE
        table = Table(box=None, pad_edge=False)
        table.add_column("model", overflow="fold")
        headings = ["arm", "done", "accuracy", "unparsed"]
        if wide:
            headings = ["arm", "", "done", "accuracy", "unparsed", "errors"]
        for heading in headings:
            table.add_column(
                heading,
                justify="left" if heading in ("arm", "") else "right",
                no_wrap=heading != "",
            )
        footers = []
        for name, state in self._models.items():
            for arm, a in state.arms.items():
                bar = ProgressBar(total=max(1, a["total"]), completed=a["done"], width=20)
                shares = ((a["correct"], a["scored"]), (a["unparsed"], a["rows"]))
                figures = (
                    f"{a['done']}/{a['total']}",
                    *(f"{100 * k / n:.1f} %" if n else "" for k, n in shares),
                )
                names = Text(one_line(name)), Text(one_line(arm))
                if wide:
                    table.add_row(*names, bar, *figures, str(a["errors"]))
                else:
                    table.add_row(*names, *figures)
            if state.loading_since is not None:
                footers.append(
                    f"{name}: loading the engine, {time.monotonic() - state.loading_since:.0f} s"
                )
            elif state.started is not None:
                footers.append(f"{name}: {self._rate(name, state)}{_trouble(state)}")
        return Group(table, *(Text(one_line(footer)) for footer in footers))

    def money(self, name: str) -> float | None:
        """Return the cost of a model since the run was last started; None if a price is unknown."""
        if self._spent is None:
            return None
        return self._spent(name, self._models[name].sums, self._clock() - self._begun)

    def _rate(self, name: str, state: _ModelState) -> str:
        """Return a text with the elapsed time, the pace, the time left and the cost so far.

        Unknown values are left out.
        """
        now = self._clock()
        parts = [f"{_clock(now - self._begun)} elapsed"]
        if state.started is not None and state.stored:
            parts.append(f"{state.tokens / max(1e-9, now - state.started):,.0f} tokens/s")
        if (
            state.first is not None
            and now - state.first[0] >= _ETA_AFTER_S
            and state.stored > state.first[1]
        ):
            # The first shards come late, because their answers queue behind the preparing calls of
            # all chunks in flight. The pace is therefore measured from the first shard on.
            pace = (state.stored - state.first[1]) / (now - state.first[0])
            left = _sum(state, "total") - _sum(state, "done")
            parts.append(f"{pace:.2g} rows/s" if pace < 10 else f"{pace:,.0f} rows/s")
            if left > 0:
                parts.append(f"ETA {_clock(left / pace)}")
        # The cost is 0 for a scripted model, and for every model before the first answer.
        if money := self.money(name):
            parts.append(
                f"{money:,.2f} {self._currency} {'by this start' if state.resumed else 'so far'}"
            )
        return "  ".join(parts)

    def stage(self, text: str) -> None:
        """Print a line on the current step, unless the display is quiet."""
        if self._quiet:
            return
        # Rich's Text does not interpret markup, but it keeps escape sequences; `lines` removes
        # them.
        self._console.print(Text(lines(text)), soft_wrap=True)


@contextmanager
def _every(seconds: float, act: Callable[[], None]) -> Iterator[None]:
    """Call a function repeatedly in a thread while the `with` block runs."""
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
    """Return how long the engines of a model usually take to load.

    Parameters
    ----------
    engines : sequence of str
        The engines of a model.
    earlier_s : sequence of float
        Loading times (seconds) of earlier starts of this run.

    Returns
    -------
    str
        The loading time as text; "" if the engines load at once. It is the time of the last start
        of this run. For a first start, it comes from docs/findings/measured.md.
    """
    if "vllm" not in engines:
        return ""
    if earlier_s:
        return f"{earlier_s[-1]:.0f} s the last time"
    return (
        "usually 0.5 to 1.5 minutes on CPUs; on GPUs several minutes for a large model, "
        "after its download"
    )


def _sum(state: _ModelState, name: str) -> int:
    return sum(arm[name] for arm in state.arms.values())


def _trouble(state: _ModelState) -> str:
    errors = _sum(state, "errors")
    return (f"  {errors} errors" if errors else "") + (
        f"  {state.retries} retries" if state.retries else ""
    )


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
