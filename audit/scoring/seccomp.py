"""Build the seccomp filter of the sandbox, in classic BPF without libseccomp.

bwrap reads the filter from a file (`--seccomp FD`). The filter refuses system calls that the code
of a benchmark does not need and that make attacks on the kernel easy. The refused calls are those
for io_uring, bpf, ptrace, the memory of other processes, the kernel's keys, userfaultfd and perf
events. Calls for file handles, new namespaces and mounts are refused too. So are calls for memory
that the limits of a process do not count: shared segments, queues and files in memory. A refused
call returns EPERM.

Only internet sockets and Unix sockets are allowed. A socket of AF_VSOCK, for example, would reach
the host of a virtual machine from any network namespace. A call of another architecture (32 bit on
x86-64, or x32) ends the process, since the same number means another call on that architecture.
"""

import errno
import platform
import struct
from collections.abc import Mapping

# These system call numbers are from Linux: arch/x86/entry/syscalls/syscall_64.tbl and
# include/uapi/asm-generic/unistd.h.
_X86_64 = {
    "ptrace": 101,
    "add_key": 248,
    "request_key": 249,
    "keyctl": 250,
    "perf_event_open": 298,
    "process_vm_readv": 310,
    "process_vm_writev": 311,
    "bpf": 321,
    "userfaultfd": 323,
    "mount": 165,
    "umount2": 166,
    "pivot_root": 155,
    "setns": 308,
    "unshare": 272,
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "kcmp": 312,
    "name_to_handle_at": 303,
    "open_by_handle_at": 304,
    "shmget": 29,
    "semget": 64,
    "msgget": 68,
    "mq_open": 240,
    "memfd_create": 319,
    "open_tree": 428,
    "fsopen": 430,
}
_AARCH64 = {
    "ptrace": 117,
    "add_key": 217,
    "request_key": 218,
    "keyctl": 219,
    "perf_event_open": 241,
    "process_vm_readv": 270,
    "process_vm_writev": 271,
    "bpf": 280,
    "userfaultfd": 282,
    "mount": 40,
    "umount2": 39,
    "pivot_root": 41,
    "setns": 268,
    "unshare": 97,
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "kcmp": 272,
    "name_to_handle_at": 264,
    "open_by_handle_at": 265,
    "shmget": 194,
    "semget": 190,
    "msgget": 186,
    "mq_open": 180,
    "memfd_create": 279,
    "open_tree": 428,
    "fsopen": 430,
}
_SOCKET = {"x86_64": 41, "aarch64": 198}
FAMILIES = (1, 2, 10)  # AF_UNIX, AF_INET, AF_INET6
REFUSED: Mapping[str, Mapping[str, int]] = {"x86_64": _X86_64, "aarch64": _AARCH64}
_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32 = 0x40000000  # this bit marks a call of the x32 ABI
_LOAD = 0x20  # BPF_LD | BPF_W | BPF_ABS
_JUMP_EQUAL = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_JUMP_AT_LEAST = 0x35  # BPF_JMP | BPF_JGE | BPF_K
_RETURN = 0x06  # BPF_RET | BPF_K
# These are byte offsets in struct seccomp_data. _FIRST is the offset of the lower half of args[0].
_NUMBER, _ARCH, _FIRST = 0, 4, 16
_ALLOW, _ERROR, _KILL = 0x7FFF0000, 0x00050000, 0x80000000


def seccomp_filter(machine: str = "") -> bytes:
    """Return the filter for a machine.

    Parameters
    ----------
    machine : str
        The architecture, as `platform.machine()` names it. "" means this machine.

    Returns
    -------
    bytes
        The filter; b"" for an architecture whose call numbers are not in this module.

    Notes
    -----
    The fields of struct sock_filter are the code, the jump if true, the jump if false, and a
    constant. A jump is the number of instructions to skip.
    """
    machine = machine or platform.machine()
    if machine not in REFUSED:
        return b""
    numbers = sorted(REFUSED[machine].values())
    steps = [
        (_LOAD, 0, 0, _ARCH),
        (_JUMP_EQUAL, 1, 0, _AUDIT_ARCH[machine]),
        (_RETURN, 0, 0, _KILL),
    ]
    steps.append((_LOAD, 0, 0, _NUMBER))
    if machine == "x86_64":
        steps += [(_JUMP_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _KILL)]
    refuse = (_RETURN, 0, 0, _ERROR | errno.EPERM)
    steps += [(_JUMP_EQUAL, 0, len(FAMILIES) + 3, _SOCKET[machine]), (_LOAD, 0, 0, _FIRST)]
    for k, family in enumerate(FAMILIES):
        steps.append((_JUMP_EQUAL, len(FAMILIES) - k, 0, family))
    steps += [refuse, (_RETURN, 0, 0, _ALLOW)]
    steps += [(_JUMP_EQUAL, len(numbers) - k, 0, number) for k, number in enumerate(numbers)]
    steps += [(_RETURN, 0, 0, _ALLOW), refuse]
    return b"".join(struct.pack("<HBBI", *step) for step in steps)
