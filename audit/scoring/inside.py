"""Run the model's code, or the tests, inside one of the two sandboxes of `sandbox.py`.

The sandbox passes this module to Python as text, so it uses the standard library only. The role
`candidate` runs the model's code and answers calls. The role `tests` makes the calls. A call and an
answer are one line of JSON each. Values are sent as plain data. The tests therefore never receive
an object of the model's code, since `==` of such an object could always be true.
"""

import builtins
import json
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

LINE_BYTES = 1_000_000  # largest length of an answer; a longer answer counts as wrong
# Reading an answer may take this many CPU seconds. Without a limit, a set of numbers with equal
# hashes would take minutes to build.
READ_S = 1.0
# If the code raised one of these exceptions, a loop such as `all(map(candidate, cases))` in a test
# would end early without an error.
_ENDS_A_LOOP = ("StopIteration", "StopAsyncIteration")
_SEQUENCES: dict[str, Any] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}


class Foreign:
    """Represent a value that is not plain data.

    An instance is equal only to itself.
    """


class NoReply(BaseException):
    """Signal that the candidate stopped answering.

    It is not an `Exception`, so that a test cannot catch it with `except Exception`.
    """


def pack(value: Any) -> Any:
    """Convert a value to JSON that keeps tuples, sets, and dicts with keys of any type.

    Parameters
    ----------
    value : object
        Value to convert, which may contain sequences and dicts.

    Returns
    -------
    object
        The value as JSON data. A value that is not plain data is replaced by a marker.
    """
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
    """Convert the JSON of `pack` back to a value.

    Parameters
    ----------
    value : object
        JSON data that `pack` returned.

    Returns
    -------
    object
        The value; a `Foreign` if the original was not plain data.
    """
    if not isinstance(value, dict):
        return value
    ((name, content),) = value.items()
    if name == "dict":
        return {unpack(key): unpack(part) for key, part in content}
    return _SEQUENCES[name](map(unpack, content)) if name in _SEQUENCES else Foreign()


def candidate(entry_point: str, calls: int, answers: int) -> None:
    """Load the model's code, then answer calls.

    The code may write to `answers` itself. Whatever it writes counts as its answer.

    Parameters
    ----------
    entry_point : str
        The name of the function.
    calls, answers : int
        The file descriptors from which calls are read, and to which answers are written.
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
        The name of the function.
    answers, calls : int
        The file descriptors from which answers are read, and to which calls are written.

    Returns
    -------
    str
        "passed", or one or two words that state why the tests failed.
    """
    replies = os.fdopen(answers, "rb")
    # The reason why the answers ended is kept here, since a test may catch the exception.
    ended: list[str] = []

    def end(why: str) -> NoReturn:
        ended.append(why)
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
        return ended[0] if ended else reason
    return ended[0] if ended else "passed"


def say(to: int, value: Any) -> None:
    """Write a value as one line of JSON.

    Parameters
    ----------
    to : int
        The file descriptor.
    value : object
        Value to write; it must be JSON data.
    """
    data = json.dumps(value).encode() + b"\n"
    while data:
        data = data[os.write(to, data) :]


def main(role: str, entry_point: str, limits: str) -> NoReturn:
    """Set the resource limits of this process, and run one role in it.

    Parameters
    ----------
    role : str
        "candidate" or "tests".
    entry_point : str
        The name of the function.
    limits : str
        The resource limits as JSON.
    """
    for name, most in json.loads(limits).items():
        resource.setrlimit(getattr(resource, name), (most, most))
    received, sent, verdict = os.dup(0), os.dup(1), os.dup(2)
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)  # This discards what the code prints.
    os.close(null)
    if role == "candidate":
        os.close(verdict)
        candidate(entry_point, received, sent)
    else:
        os.write(verdict, f"verdict {tests(entry_point, received, sent)}".encode()[:200])
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:4])
