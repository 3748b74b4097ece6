"""Which CPUs compute in bfloat16, from the flags as Linux and macOS list them."""

import platform

import pytest

from audit.core.errors import EngineLoadError
from audit.engines.precision import (
    computes_in_bfloat16,
    computes_in_bfloat16_here,
    dtype_on_cpu,
    flags_of,
)
from audit.runtime.actors import one_precision

ZEN3 = "fpu sse4_2 fma avx2 sha_ni vaes vpclmulqdq"
ZEN4 = f"{ZEN3} avx512f avx512bw avx512_bf16 avx512_vnni"
CASCADE_LAKE = f"{ZEN3} avx512f avx512bw avx512_vnni"
SAPPHIRE_RAPIDS = f"{ZEN3} avx512f amx_tile amx_bf16"
GRAVITON2 = "fp asimd evtstrm aes fphp asimdhp cpuid asimdrdm dcpop ssbs"
GRAVITON3 = f"{GRAVITON2} sve svebf16 i8mm bf16 dgh"


@pytest.mark.parametrize(
    ("machine", "flags", "computes"),
    [
        ("x86_64", ZEN3, False),
        ("x86_64", CASCADE_LAKE, False),  # AVX-512 alone does not compute in it
        ("x86_64", ZEN4, True),
        ("x86_64", SAPPHIRE_RAPIDS, True),
        ("AMD64", ZEN4, True),
        ("x86_64", "bf16", False),  # another machine's name for it
        ("aarch64", GRAVITON2, False),
        ("aarch64", GRAVITON3, True),
        ("arm64", "feat_bf16", True),  # Apple's M2 and later, as sysctl has it
        ("arm64", "", False),
        ("x86_64", "", False),
        ("riscv64", "avx512_bf16", False),
    ],
)
def test_bfloat16_is_computed_only_where_the_processor_has_instructions_for_it(
    machine, flags, computes
):
    assert computes_in_bfloat16(machine, frozenset(flags.split())) is computes


@pytest.mark.parametrize(
    ("configured", "in_bfloat16", "dtype"),
    [
        ("auto", True, "auto"),
        ("auto", False, "float32"),
        ("bfloat16", False, "bfloat16"),  # what a person asks for is done
        ("float16", False, "float16"),
        ("float32", True, "float32"),
    ],
)
def test_auto_alone_follows_the_processor(configured, in_bfloat16, dtype):
    assert dtype_on_cpu(configured, in_bfloat16) == dtype


def test_flags_are_those_that_all_processors_of_a_machine_have():
    x86 = f"processor\t: 0\nflags\t\t: {ZEN4}\n\nprocessor\t: 1\nflags\t\t: {ZEN3}\nbugs\t\t: spectre_v1\n"
    assert flags_of(x86) == frozenset(ZEN3.split())
    assert flags_of(f"processor\t: 0\nFeatures\t: {GRAVITON3}\nCPU part\t: 0xd40\n") == frozenset(
        GRAVITON3.split()
    )
    assert flags_of("processor\t: 0\nmodel name\t: unknown\n") == frozenset()


@pytest.mark.skipif(platform.system() != "Linux", reason="reads /proc/cpuinfo")
def test_this_machines_own_processors_are_read():
    torch = pytest.importorskip("torch")
    names = {"avx512_bf16", "amx_bf16", "bf16"}
    capabilities = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    if not names & capabilities.keys():
        pytest.skip("this torch does not list the processor's capabilities")
    assert computes_in_bfloat16_here() is any(capabilities.get(name) for name in names)


def test_replicas_of_two_precisions_are_refused():
    assert one_precision("m", {"float32"}) == "float32"
    assert one_precision("m", set()) == ""
    with pytest.raises(EngineLoadError, match="dtype"):
        one_precision("m", {"float32", "bfloat16"})
