"""Where an engine is placed, and what is refused before anything loads. No Ray."""

from dataclasses import replace

import pytest

from audit.core.errors import ConfigError
from audit.engines.config import ModelConfig
from audit.engines.memory import ModelFiles
from audit.runtime.placement import Node, Placement, plan_placement
from audit.runtime.room import check_room

LLAMA = {
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "hidden_size": 8192,
    "torch_dtype": "bfloat16",
}
FILES = ModelFiles(LLAMA, 141_107_412_992)
LARGE = ModelConfig(name="large", path="org/large", tensor_parallel_size=4, max_model_len=16_384)
SMALL = ModelConfig(name="small", path="org/small", max_model_len=2048)
NO_GPU = [Node(0.0), Node(0.0)]


def sized(tensor: int, stages: int = 1, executor: str = "mp", **other: object) -> ModelConfig:
    return replace(
        SMALL,
        tensor_parallel_size=tensor,
        pipeline_parallel_size=stages,
        executor=executor,
        **other,
    )  # type: ignore[arg-type]


def gpus(*each: float) -> list[Node]:
    return [Node(memory) for memory in each]


@pytest.mark.parametrize(
    ("model", "nodes", "expected"),
    [
        (sized(1), gpus(0), None),
        (
            sized(4),
            gpus(4, 4),
            Placement(({"GPU": 4.0},), "STRICT_PACK", 4.0),
        ),  # held by the engine itself
        (sized(2, 2), gpus(4, 4), Placement(({"GPU": 4.0},), "STRICT_PACK", 4.0)),
        (sized(1, 1, "ray"), gpus(8), Placement(({"GPU": 1.0},), "STRICT_PACK", 1.0)),
        (
            sized(4, 1, "ray"),
            gpus(2, 2),
            Placement(({"GPU": 1.0},) * 4, "PACK", 0.0),
        ),  # left to vLLM's workers
        (sized(2, 2, "ray"), gpus(2, 2), Placement(({"GPU": 1.0},) * 4, "PACK", 0.0)),
        (sized(1, gpu_share=0.25), gpus(1), Placement(({"GPU": 0.25},), "STRICT_PACK", 0.25)),
    ],
)
def test_gpus_are_asked_for_and_no_cpu(
    model: ModelConfig, nodes: list[Node], expected: Placement | None
) -> None:
    """With as many replicas as CPUs, a CPU for each would leave the stages waiting for ever."""
    assert plan_placement(model, nodes) == expected


@pytest.mark.parametrize(
    ("model", "nodes", "words"),
    [
        (
            sized(8, 1, "ray"),
            gpus(4),
            r"needs 8 GPUs \(tensor_parallel_size=8\); this cluster has 4",
        ),
        (
            sized(4),
            gpus(2, 2),
            "executor=ray model.small.tensor_parallel_size=2 model.small.pipeline_parallel_size=2",
        ),
        (
            sized(6),
            gpus(4, 4),
            "executor=ray model.small.tensor_parallel_size=3 model.small.pipeline_parallel_size=2",
        ),
        (
            sized(2, 2, "ray"),
            gpus(3, 1),
            "2 of them within a node for each stage; the nodes have 3, 1",
        ),
        (sized(4, replicas=2), gpus(6, 2), r"needs 8 GPUs .* Example: model.small.replicas=1"),
        (sized(1, gpu_share=0.4, replicas=3), gpus(1, 1 / 3), "needs 1.2 GPUs"),
        (
            sized(1, gpu_share=0.4, replicas=5),
            gpus(1, 1),
            "hold 4 such replicas. Example: model.small.replicas=4",
        ),
    ],
)
def test_what_cannot_fit_is_refused_with_what_would(
    model: ModelConfig, nodes: list[Node], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        plan_placement(model, nodes)


@pytest.mark.parametrize(
    ("model", "nodes"),
    [
        (sized(2, 2, "ray"), gpus(4)),
        (sized(2, 2, "ray", replicas=2), gpus(6, 2)),
        (sized(4, replicas=2), gpus(8)),
        (sized(1, gpu_share=1 / 3, replicas=6), gpus(1, 1)),
        (sized(1, gpu_share=0.25, replicas=4), gpus(1)),
    ],
)
def test_what_fits_is_placed(model: ModelConfig, nodes: list[Node]) -> None:
    assert plan_placement(model, nodes) is not None


def test_a_type_of_gpu_is_asked_for_by_its_resource() -> None:
    nodes = [Node(4, frozenset({"A10G"})), Node(2, frozenset({"H100"}))]
    placed = plan_placement(sized(2, accelerator_type="H100"), nodes)
    assert placed is not None and placed.bundles == ({"GPU": 2.0, "accelerator_type:H100": 0.001},)
    with pytest.raises(ConfigError, match=r"needs 4 GPUs of type H100 .*has 2"):
        plan_placement(sized(4, accelerator_type="H100"), nodes)
    with pytest.raises(ConfigError, match="Expected a type of this cluster: A10G, H100"):
        plan_placement(sized(1, accelerator_type="h100"), nodes)


def test_what_an_autoscaler_may_start_is_asked_for() -> None:
    for model in (sized(1), sized(8), sized(8, 1, "ray"), sized(1, accelerator_type="H100")):
        assert plan_placement(model, NO_GPU, autoscale=True) is not None
        check_room(model, FILES, NO_GPU, autoscale=True)


def test_a_large_model_is_refused_where_there_is_no_gpu() -> None:
    """141.1 GB of weights and 16,384 x 327,680 bytes on four GPUs, at 90 %: (35.28 + 1.34) / .9 =
    40.7 GB each."""
    with pytest.raises(ConfigError, match=r"needs 4 GPUs of at least 41 GB .*has 0 GPUs") as error:
        check_room(LARGE, FILES, NO_GPU)
    for way in ("model=smollm2_135m", "endpoint=http", "audit plan model=large"):
        assert way in str(error.value)
    assert "on_cpus" not in str(error.value)


@pytest.mark.parametrize(
    ("stored", "on_cpus", "runs"),
    [
        (270_000_000, None, True),
        (4_000_000_001, None, False),
        (None, None, False),
        (None, True, True),
        (4_000_000_001, True, True),
        (270_000_000, False, False),
    ],
)
def test_a_model_is_started_on_cpus_if_it_is_small_or_the_configuration_says_so(
    stored: int | None, on_cpus: bool | None, runs: bool
) -> None:
    model = replace(SMALL, on_cpus=on_cpus)
    if runs:
        check_room(model, ModelFiles(LLAMA, stored), NO_GPU)
        return
    with pytest.raises(ConfigError, match=r"model.small.on_cpus=true"):
        check_room(model, ModelFiles(LLAMA, stored), NO_GPU)


def test_a_small_model_that_asks_for_several_gpus_is_not_started_on_cpus() -> None:
    with pytest.raises(ConfigError, match=r"needs 2 GPUs"):
        check_room(sized(2), ModelFiles(LLAMA, 270_000_000), NO_GPU)


@pytest.mark.parametrize(
    ("gb", "fits"), [(80, True), (41, True), (40, False)]
)  # each GPU needs 36.6 GB, which is 90 % of 40.7
def test_the_memory_of_the_gpus_is_compared(gb: int, fits: bool) -> None:
    nodes = [Node(8, gpu_bytes=gb * 10**9)]
    if fits:
        check_room(LARGE, FILES, nodes)
        return
    with pytest.raises(
        ConfigError,
        match=r"at least 41 GB .*has 40 GB\. On more GPUs: model.large.tensor_parallel_si",
    ):
        check_room(LARGE, FILES, nodes)


def test_what_is_not_known_refuses_nothing() -> None:
    small = [Node(8, gpu_bytes=24 * 10**9)]
    check_room(LARGE, ModelFiles(None, None), small)
    check_room(LARGE, FILES, [*small, Node(8)])  # another node, whose memory is not known
    check_room(replace(LARGE, engine_args={"quantization": "fp8"}), FILES, small)
    for model in (
        ModelConfig(engine="openai"),
        ModelConfig(engine="scripted"),
        ModelConfig(engine="masked_lm"),
    ):
        check_room(model, ModelFiles(), NO_GPU)


def test_a_share_of_a_gpu_is_a_share_of_its_memory() -> None:
    """1 GB of weights in .05 of a GPU of 16 GB: .9 x .8 = .72 GB."""
    model = replace(SMALL, gpu_share=0.05)
    files = ModelFiles({"torch_dtype": "bfloat16"}, 10**9)
    with pytest.raises(ConfigError, match=r"gpu_share=0.05"):
        check_room(model, files, [Node(1, gpu_bytes=16 * 10**9)])
    check_room(replace(model, gpu_share=0.1), files, [Node(1, gpu_bytes=16 * 10**9)])
