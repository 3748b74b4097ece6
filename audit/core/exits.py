"""Define the exit codes of commands, end interrupted commands, and clean text for output.

Names, replies and other text from outside are cleaned before they reach a terminal, a log or a
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
    """Return text as one printable line that is valid in XML.

    Returns
    -------
    str
        The line. Blanks replace line breaks, and U+FFFD replaces control characters and characters
        that change the direction of the text.

    Examples
    --------
    >>> one_line("a\\n::error::b\\x1b[2J")
    'a ::error::b\\ufffd[2J'
    """
    spaced = re.sub(r"[\n\r\t]+", " ", str(text))
    return "".join(_BAD if c in _BIDI or unicodedata.category(c) in _DROPPED else c for c in spaced)


# True with `--quiet`: only results and errors are printed.
QUIET: ContextVar[bool] = ContextVar("QUIET", default=False)


def tell(text: object) -> None:
    """Print a note on stderr. Results go to stdout, and `--quiet` suppresses notes."""
    if not QUIET.get():
        print(lines(text), file=sys.stderr, flush=True)


def say(text: object, file: TextIO | None = None) -> None:
    """Print a text as one line, cleaned by `one_line`."""
    print(one_line(text), file=file)


def lines(text: object) -> str:
    """Return text with its line breaks, and each line cleaned by `one_line`.

    Returns
    -------
    str
        The cleaned text.

    Examples
    --------
    >>> lines("a\\n  b\\x1b]0;title\\x07")
    'a\\n  b\\ufffd]0;title\\ufffd'
    """
    return "\n".join(map(one_line, str(text).split("\n")))


def printable(text: str) -> str:
    """Replace the control characters of a page with U+FFFD, except line breaks.

    Characters that change the direction of the text are replaced too.

    Returns
    -------
    str
        The cleaned page.

    Examples
    --------
    >>> printable("<p>a\\x1b[2J</p>\\n")
    '<p>a\\ufffd[2J</p>\\n'
    """
    return _OBEYED.sub(_BAD, text)


Given = ParamSpec("Given")

# The gate has further exit codes: `audit.judging.ladder.Decision.exit_code`.
OK, FAILED, USAGE = 0, 1, 2
INTERRUPTED = 130  # 128 + SIGINT, as in shells
TERMINATED = 143  # 128 + SIGTERM
BROKEN_PIPE = 141  # 128 + SIGPIPE, for example after `| head`
# Maps each package that the core does not need to the extra that installs it.
EXTRAS = {
    **dict.fromkeys(("sqlalchemy", "alembic", "apprise"), "registry"),
    **dict.fromkeys(("starlette", "uvicorn"), "review"),
    # The extra gpu installs these packages too.
    **dict.fromkeys(("vllm", "torch", "transformers"), "cpu"),
}


class Terminated(KeyboardInterrupt):
    """Interrupt a command after SIGTERM, the signal of batch systems and containers.

    The command ends in the same way as after Ctrl-C, but with another exit code.
    """


def heed_sigterm() -> None:
    """Make SIGTERM raise Terminated. Call this function again after a library, such as Ray, has set
    a handler of its own."""

    def terminated(number: int, frame: FrameType | None) -> NoReturn:
        raise Terminated

    # Only the main thread can set signal handlers.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, terminated)


def refused(error: object, shown: Callable[[object], str] = one_line) -> int:
    """Print why a command failed. All errors for people are printed here.

    Parameters
    ----------
    error : object
        The error; its text is printed.
    shown : callable
        Function that removes control characters from the text.

    Returns
    -------
    int
        The exit code.
    """
    print(shown(f"error: {named(error)}"), file=sys.stderr, flush=True)
    return USAGE if isinstance(error, UsageError) else FAILED


def plainly(
    main: Callable[Given, int], shown: Callable[[object], str] = one_line
) -> Callable[Given, int]:
    """Wrap a command so that its AuditErrors are printed without a traceback.

    Parameters
    ----------
    main : callable
        Function that runs the command.
    shown : callable
        Cleans the text of an error.

    Returns
    -------
    callable
        The command, which returns the exit code of an error.
    """

    @wraps(main)
    def wrapped(*given: Given.args, **named: Given.kwargs) -> int:
        try:
            return main(*given, **named)
        except AuditError as error:
            return refused(error, shown)

    return wrapped


def run_command(main: Callable[[], int | None]) -> NoReturn:
    """Run a command and exit with its code.

    Parameters
    ----------
    main : callable
        The command, which returns its exit code.

    Notes
    -----
    After Ctrl-C or SIGTERM the command prints one sentence and ends; the KeyboardInterrupt may
    contain this sentence. A closed pipe ends the command without a message. Hydra jobs use this
    function too, since Hydra prints a traceback for every exception.
    """
    heed_sigterm()
    try:
        code = main()
        sys.stdout.flush()  # If the output is flushed here, a broken pipe can still be caught.
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
            f"{package} is not installed. Expected: pip install {extra}, or make install in a "
            "checkout."
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
    # Otherwise the interpreter flushes again at exit, and prints an error.
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)
