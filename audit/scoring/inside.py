"""Run inside the two sandboxes of `sandbox.py`: passed to Python as text, with the standard library
alone.

The role `candidate` holds the model's code and answers calls, the role `tests` makes them: a line
of JSON a call and an answer. Values cross as plain data, so an object of the candidate's own, whose
`==` is always true, does not.
"""

import builtins
import json
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

LINE_BYTES = 1_000_000  # a longer answer is wrong
READ_S = 1.0  # CPU seconds: a set of numbers with one hash takes minutes to build
# A test's loop would end early without an error, as in `all(map(candidate, cases))`.
_ENDS_A_LOOP = ("StopIteration", "StopAsyncIteration")
_SEQUENCES: dict[str, Any] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}


class Foreign:
    """Stand for a value that is not plain data: equal to nothing but itself."""


class NoReply(BaseException):
    """Signal that the candidate answers no more; no `except Exception` of a test catches it."""


def pack(value: Any) -> Any:
    """Return plain data as JSON that distinguishes tuples, sets and dicts with keys of any kind."""
    if value is None or isinstance(value, bool):
        return value
    for plain in (int, float, str):
        if isinstance(value, plain):
            return plain(value)
    for name, kind in _SEQUENCES.items():
        if isinstance(value, kind):
            return {name: [pack(part) for part in value]}
    if isinstance(value, dict):
        return {"dict": [[pack(key), pack(part)] for key, part in value.items()]}
    return {"foreign": []}


def unpack(value: Any) -> Any:
    """Return the value that `pack` made JSON of; a foreign one becomes `Foreign`."""
    if not isinstance(value, dict):
        return value
    ((name, content),) = value.items()
    if name == "dict":
        return {unpack(key): unpack(part) for key, part in content}
    return _SEQUENCES[name](map(unpack, content)) if name in _SEQUENCES else Foreign()


def candidate(entry_point: str, calls: int, answers: int) -> None:
    """Load the model's code, then answer calls.

    The code may write anything to `answers`: that is its answer.

    Parameters
    ----------
    entry_point : str
        Name of the function.
    calls, answers : int
        File descriptors to read calls from and write answers to.
    """
    say(answers, {"started": True})
    space: dict[str, Any] = {"__name__": "candidate"}
    try:
        exec(  # noqa: S102
            compile(Path("/given/candidate").read_text(), "candidate", "exec", dont_inherit=True),
            space,
        )
        function = space[entry_point]
        say(answers, {"value": None})
    except BaseException as error:  # noqa: BLE001
        say(answers, {"raised": type(error).__name__})
        return
    for line in os.fdopen(calls, "rb"):
        try:
            args, kwargs = unpack(json.loads(line))
            outcome = {"value": pack(function(*args, **kwargs))}
        except BaseException as error:  # noqa: BLE001
            outcome = {"raised": type(error).__name__}
        say(answers, outcome)


def tests(entry_point: str, answers: int, calls: int) -> str:
    """Run the benchmark's tests.

    Parameters
    ----------
    entry_point : str
        Name of the function.
    answers, calls : int
        File descriptors to read answers from and write calls to.

    Returns
    -------
    str
        "passed", or why the tests failed in a word or two.
    """
    replies = os.fdopen(answers, "rb")
    gone: list[str] = []  # the reason why answers ended, as a test may swallow the exception

    def end(why: str) -> NoReturn:
        gone.append(why)
        raise NoReply

    def reply() -> Any:
        line = replies.readline(LINE_BYTES)
        if not line.endswith(b"\n"):
            end("ended" if len(line) < LINE_BYTES else "too_long")
        try:
            signal.setitimer(signal.ITIMER_PROF, READ_S)
            parsed = json.loads(line)
            if set(parsed) == {"value"}:
                return unpack(parsed["value"])
            name = str(parsed["raised"])
        except Exception:  # noqa: BLE001
            end("unreadable")
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        kind = RuntimeError if name in _ENDS_A_LOOP else getattr(builtins, name, None)
        raise (
            kind(name)
            if isinstance(kind, type) and issubclass(kind, Exception)
            else RuntimeError(name)
        )

    def late(*_: object) -> NoReturn:
        raise TimeoutError

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            say(calls, pack((args, kwargs)))
        except BrokenPipeError:
            end("ended")
        return reply()

    signal.signal(signal.SIGPROF, late)
    if replies.readline(LINE_BYTES) != b'{"started": true}\n':
        return "not_started"
    try:
        reply()
        space: dict[str, Any] = {"__name__": "tests"}
        exec(compile(Path("/given/tests").read_text(), "tests", "exec", dont_inherit=True), space)  # noqa: S102
        space[entry_point] = call
        space["check"](call)
    except NoReply:
        pass
    except Exception as error:  # noqa: BLE001
        reason = str(error) if type(error) is RuntimeError else type(error).__name__
        return gone[0] if gone else reason
    return gone[0] if gone else "passed"


def say(to: int, value: Any) -> None:
    """Write a value as a whole line to a file descriptor."""
    data = json.dumps(value).encode() + b"\n"
    while data:
        data = data[os.write(to, data) :]


def main(role: str, entry_point: str, limits: str) -> NoReturn:
    """Limit this process and run one role in it.

    Parameters
    ----------
    role : str
        "candidate" or "tests".
    entry_point : str
        Name of the function.
    limits : str
        Resource limits as JSON.
    """
    for name, most in json.loads(limits).items():
        resource.setrlimit(getattr(resource, name), (most, most))
    received, sent, verdict = os.dup(0), os.dup(1), os.dup(2)
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)  # output of the code is discarded
    os.close(null)
    if role == "candidate":
        os.close(verdict)
        candidate(entry_point, received, sent)
    else:
        os.write(verdict, f"verdict {tests(entry_point, received, sent)}".encode()[:200])
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:4])
