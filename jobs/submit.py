"""Submit a command to a Ray cluster, follow it, and exit with the driver's own exit code.

    python jobs/submit.py --address http://HEAD:8265 -- python -m audit.sweep model=llama3_70b
    r=1..9 gate=true

`ray job submit` exits 1 for every failure. The verdict's codes (`gate=true`: 3 excess, 4 withheld,
gain uncontrolled, brittle or underpowered) would be lost on the way; the job API keeps them as
`driver_exit_code`, and this follows it.

Exit codes: the driver's; 1 if the job failed before its driver ran (runtime_env) or the cluster no
longer answers; 130 if it was stopped. Ctrl-C here stops the following, not the job."""

import argparse
import asyncio
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

TERMINAL = ("SUCCEEDED", "FAILED", "STOPPED")
EXIT_NO_DRIVER = 1
EXIT_STOPPED = 130
_TRIES = 30  # to reach a cluster that does not answer, two seconds apart


def exit_code(status: str, driver_exit_code: int | None) -> int:
    """The code to exit with for a job that ended as `status`.

    >>> exit_code("FAILED", 3), exit_code("FAILED", None), exit_code("SUCCEEDED", 0), exit_code("STOPPED", -15)
    (3, 1, 0, 130)
    """
    if status == "STOPPED":
        return EXIT_STOPPED
    if status == "SUCCEEDED":
        return 0
    code = driver_exit_code or EXIT_NO_DRIVER
    return (
        128 - code if code < 0 else code
    )  # killed by signal N it is -N, which a shell writes as 128 + N


def follow(
    client: Any, job_id: str, echo: Callable[[str], None], sleep: Callable[[float], None]
) -> int:
    """Echo the job's log until it ends or its cluster is lost; return the exit code. A connection
    that breaks is opened again. client: a JobSubmissionClient."""
    from aiohttp import ClientError  # Ray's client asks by it, and lets through what it raises

    shown = 0  # characters echoed so far
    told = -1  # `shown` when a lost connection was last told: once, until there is something new
    unreached = 0  # times in a row

    async def echo_log() -> None:
        nonlocal shown
        position = 0  # every connection starts at the log's beginning: skip what was shown
        async for chunk in client.tail_job_logs(job_id):
            new = chunk[max(0, shown - position) :]
            position += len(chunk)
            if new:
                echo(new)
                shown = position

    while True:
        try:
            asyncio.run(echo_log())
        except (RuntimeError, OSError, ClientError) as broken:
            if told != shown:
                echo(f"\n[log connection lost: {broken}; trying again]\n")
            told = shown
        try:
            info = client.get_job_info(job_id)
        except (
            RuntimeError,
            OSError,
        ) as broken:  # the head is gone, or another one that does not know the job
            unreached += 1
            if unreached == _TRIES:
                echo(
                    f"\nThe cluster no longer answers for job {job_id} ({type(broken).__name__}). If its head is gone, "
                    "so is the job; what it stored is kept. Once a cluster is up, submit the same command again: it "
                    "goes on where this one stopped.\n"
                )
                return EXIT_NO_DRIVER
            sleep(2.0)
            continue
        unreached = 0
        if info.status in TERMINAL:
            if info.status != "SUCCEEDED" and info.message:
                echo(f"\n{info.message}\n")
            return exit_code(info.status, info.driver_exit_code)
        sleep(2.0)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The command line; everything after -- is the job's command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--address",
        help="the dashboard, http://HEAD:8265; default: RAY_API_SERVER_ADDRESS or local",
    )
    parser.add_argument(
        "--runtime-env", type=Path, default=Path(__file__).with_name("runtime_env.yaml")
    )
    parser.add_argument(
        "--submission-id", help="a name of your own; submitting it twice is refused by Ray"
    )
    parser.add_argument("--no-wait", action="store_true", help="print the job's id and leave")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="-- python -m audit.sweep ...")
    args = parser.parse_args(argv)
    args.command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not args.command:
        parser.error(
            "no command. Example: python jobs/submit.py -- python -m audit.sweep model=qwen3_8b r=1..9"
        )
    return args


def main(argv: Sequence[str]) -> int:
    args = parse(argv)
    import yaml
    from ray.job_submission import JobSubmissionClient  # here: --help and the tests need no ray

    client = JobSubmissionClient(args.address)
    job_id = client.submit_job(
        entrypoint=shlex.join(args.command),
        runtime_env=yaml.safe_load(args.runtime_env.read_text()),
        submission_id=args.submission_id,
    )
    print(
        f"Job {job_id} submitted. Logs: ray job logs -f {job_id}. Stop: ray job stop {job_id}",
        flush=True,
    )
    if args.no_wait:
        return 0
    try:
        return follow(client, job_id, lambda text: print(text, end="", flush=True), time.sleep)
    except KeyboardInterrupt:
        print(
            f"\nNo longer following; the job goes on. Follow again: ray job logs -f {job_id}",
            flush=True,
        )
        return EXIT_STOPPED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
