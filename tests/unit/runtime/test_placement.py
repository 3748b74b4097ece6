import pytest

from audit.errors import ConfigError
from audit.runtime.placement import plan_placement


def test_no_gpu_no_placement():
    assert plan_placement(1, "mp", 0.0, 0.0) is None


def test_mp_takes_its_gpus_in_one_bundle_and_holds_them_itself():
    placement = plan_placement(4, "mp", 8.0, 4.0)
    assert placement is not None
    assert (placement.bundles, placement.strategy, placement.actor_gpus) == (({"GPU": 4.0},), "STRICT_PACK", 4.0)


def test_ray_takes_one_gpu_a_bundle_and_leaves_them_to_vllms_workers():
    placement = plan_placement(4, "ray", 4.0, 2.0)  # two nodes of two: only the ray executor can
    assert placement is not None
    assert (placement.bundles, placement.strategy, placement.actor_gpus) == (({"GPU": 1.0},) * 4, "PACK", 0.0)


@pytest.mark.parametrize(("size", "executor"), [(1, "mp"), (1, "ray"), (2, "mp"), (2, "ray")])
def test_no_cpu_is_reserved(size, executor):
    """With as many replicas as CPUs, a CPU for each would leave the stages waiting for ever."""
    placement = plan_placement(size, executor, 8.0, 8.0)
    assert placement is not None and all(set(bundle) == {"GPU"} for bundle in placement.bundles)


def test_what_cannot_fit_is_refused():
    with pytest.raises(ConfigError, match="needs 8 GPUs; the cluster has 4"):
        plan_placement(8, "ray", 4.0, 4.0)
    with pytest.raises(ConfigError, match="Use executor=ray to span nodes"):
        plan_placement(4, "mp", 4.0, 2.0)


def test_what_an_autoscaler_may_start_is_asked_for():
    for size, executor in ((1, "mp"), (8, "mp"), (8, "ray")):
        placement = plan_placement(size, executor, 0.0, 0.0, autoscale=True)
        assert placement == plan_placement(size, executor, 8.0, 8.0)
