"""Define the exit code of every command, and how a command ends that was stopped or whose reader
has gone.

Text from outside (names, what a model wrote) is cleaned here on its way to a terminal, a log or a
page.
"""

import os
import re
import signal
import sys
import threading
import unicodedata
from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from types import FrameType
from typing import NoReturn, ParamSpec, TextIO

from audit.core.aliases import named
from audit.core.errors import AuditError, UsageError

_BAD = "\N{REPLACEMENT CHARACTER}"
# Characters that change the direction of the text.
_BIDI = set("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_DROPPED = {"Cc", "Cs", "Zl", "Zp", "Cn"}

_OBEYED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def one_line(text: object) -> str:
    """Return text as one printable line: without control characters, line breaks or changes of
    direction, and valid in XML.

    >>> one_line("a\\n::error::b\\x1b[2J")
    'a ::error::b\\ufffd[2J'
    """
    spaced = re.sub(r"[\n\r\t]+", " ", str(text))
    return "".join(_BAD if c in _BIDI or unicodedata.category(c) in _DROPPED else c for c in spaced)


QUIET: ContextVar[bool] = ContextVar("QUIET", default=False)  # `--quiet`: results and errors alone


def tell(text: object) -> None:
    """Print a note or a stage on stderr, where it does not mix with results; nothing with
    `--quiet`."""
    if not QUIET.get():
        print(lines(text), file=sys.stderr, flush=True)


def say(text: object, file: TextIO | None = None) -> None:
    """Print it as one line."""
    print(one_line(text), file=file)


def lines(text: object) -> str:
    """Return text with its line breaks; each line is cleaned as by `one_line`.

    >>> lines("a\\n  b\\x1b]0;title\\x07")
    'a\\n  b\\ufffd]0;title\\ufffd'
    """
    return "\n".join(one_line(line) for line in str(text).split("\n"))


def printable(text: str) -> str:
    """Return a whole page or table without what a terminal obeys or what turns a line around.

    >>> printable("<p>a\\x1b[2J</p>\\n")
    '<p>a\\ufffd[2J</p>\\n'
    """
    return _OBEYED.sub(_BAD, text)


Given = ParamSpec("Given")

OK, FAILED, USAGE = 0, 1, 2  # A gate's exit codes are in `audit.judging.ladder.Decision.exit_code`.
INTERRUPTED = 130  # 128 + SIGINT, as shells have it
TERMINATED = 143  # 128 + SIGTERM
BROKEN_PIPE = 141  # 128 + SIGPIPE, as after `| head`
# Packages that the core does without, and the extra that brings each.
EXTRAS = {
    **dict.fromkeys(("sqlalchemy", "alembic", "apprise"), "registry"),
    **dict.fromkeys(("starlette", "uvicorn"), "review"),
    **dict.fromkeys(("vllm", "torch", "transformers"), "cpu"),  # The extra gpu has them too.
}


class Terminated(KeyboardInterrupt):
    """Signal SIGTERM, by which batch systems and containers end a command. It ends as by Ctrl-C,
    with a code of its own."""


def heed_sigterm() -> None:
    """Make SIGTERM raise Terminated. It is called again after a library took the signal (Ray does)."""

    def terminated(number: int, frame: FrameType | None) -> NoReturn:
        raise Terminated

    # Only the main thread can set signal handlers.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, terminated)


def refused(error: object, shown: Callable[[object], str] = one_line) -> int:
    """Say why a command cannot do what was asked; its exit code. Every error that a person reads is
    printed here."""
    print(shown(f"error: {named(error)}"), file=sys.stderr, flush=True)
    return USAGE if isinstance(error, UsageError) else FAILED


def plainly(
    main: Callable[Given, int], shown: Callable[[object], str] = one_line
) -> Callable[Given, int]:
    """Wrap a command so that its AuditErrors are printed without a traceback."""

    @wraps(main)
    def wrapped(*given: Given.args, **named: Given.kwargs) -> int:
        try:
            return main(*given, **named)
        except AuditError as error:
            return refused(error, shown)

    return wrapped


def run_command(main: Callable[[], int | None]) -> NoReturn:
    """Run a command and exit with its code; Ctrl-C, SIGTERM and a reader that went away end it in a
    sentence, or in silence.

    A KeyboardInterrupt may carry the sentence. To be used inside a Hydra job too: Hydra shows a
    traceback for whatever reaches it."""
    heed_sigterm()
    try:
        code = main()
        sys.stdout.flush()  # A broken pipe can still be caught here.
    except KeyboardInterrupt as stop:
        print(f"\n{str(stop) or 'Interrupted.'}", file=sys.stderr, flush=True)
        _end(TERMINATED if isinstance(stop, Terminated) else INTERRUPTED)
    except BrokenPipeError:
        _end(BROKEN_PIPE)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package == "audit":
            raise
        extra = f"'benchmark-audit[{EXTRAS[package]}]'" if package in EXTRAS else "benchmark-audit"
        code = refused(
            f"{package} is not installed. Expected: pip install {extra}, or in a checkout make install."
        )
    except SystemExit as end:
        # Rich's console ends a command with SystemExit(1) after a broken pipe.
        if isinstance(end.__context__, BrokenPipeError):
            _end(BROKEN_PIPE)
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            _end(BROKEN_PIPE)
        raise end
    sys.exit(code)


def _end(code: int) -> NoReturn:
    try:
        sys.stdout.flush()
    # Otherwise the interpreter would flush again at exit and print an error.
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)
