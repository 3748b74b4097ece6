"""Choose the floating-point precision of a model that runs on CPUs.

A CPU without bfloat16 instructions emulates bfloat16, which takes about three times as long as
float32.
"""

import platform
import subprocess
from collections.abc import Collection
from pathlib import Path

# This maps each type of machine to the processor flags that show instructions for bfloat16.
_BFLOAT16 = {
    **dict.fromkeys(("x86_64", "amd64"), frozenset({"avx512_bf16", "amx_bf16"})),
    **dict.fromkeys(("aarch64", "arm64"), frozenset({"bf16", "feat_bf16"})),
}


def computes_in_bfloat16(machine: str, flags: Collection[str]) -> bool:
    """Return whether a processor has instructions for bfloat16.

    Parameters
    ----------
    machine : str
        The type of machine, as `platform.machine()` returns it.
    flags : collection of str
        The processor's flags.

    Returns
    -------
    bool
        False for an unknown machine.
    """
    return not _BFLOAT16.get(machine.lower(), frozenset()).isdisjoint(flags)


def dtype_on_cpu(dtype: str, in_bfloat16: bool) -> str:
    """Return the dtype in which a model runs on CPUs.

    Parameters
    ----------
    dtype : str
        The configured dtype.
    in_bfloat16 : bool
        Whether the CPU has instructions for bfloat16.

    Returns
    -------
    str
        The configured dtype; float32 if the configured dtype is `auto` and the CPU has no bfloat16
        instructions.
    """
    return "float32" if dtype == "auto" and not in_bfloat16 else dtype


def flags_of(cpuinfo: str) -> frozenset[str]:
    """Return the flags that every processor in the text of /proc/cpuinfo has.

    The flags are in the line `flags` on x86, and in the line `Features` on Arm.
    """
    per_processor = []
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            per_processor.append(frozenset(value.split()))
    return frozenset.intersection(*per_processor) if per_processor else frozenset()


def computes_in_bfloat16_here() -> bool:
    """Return whether this machine's processors have instructions for bfloat16; False if unknown."""
    return computes_in_bfloat16(platform.machine(), _flags_here())


def _flags_here() -> frozenset[str]:
    if platform.system() == "Linux":
        return flags_of(Path("/proc/cpuinfo").read_text(errors="replace"))
    if platform.system() == "Darwin":
        query = ["/usr/sbin/sysctl", "-n", "hw.optional.arm.FEAT_BF16"]
        answer = subprocess.run(query, capture_output=True, text=True, check=False)
        return frozenset({"feat_bf16"} if answer.stdout.strip() == "1" else ())
    return frozenset()
