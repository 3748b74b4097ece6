"""Router counts, doses and the settings that a sweep is run at."""

import pytest

from audit.core.errors import ConfigError
from audit.core.records import Setting
from audit.sweep.design import (
    DELETED,
    Arm,
    Draws,
    make_design,
    missing_controls,
    n_messages,
    parse_doses,
    parse_routers,
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("1..9", tuple(range(1, 10))),
        ("3", (3,)),
        (3, (3,)),
        ("1,3,9", (1, 3, 9)),
        ([9, 1, 3], (1, 3, 9)),
        ("[1,3]", (1, 3)),
        (["1..3", 9], (1, 2, 3, 9)),
        ("2..2", (2,)),
        ([3, 3], (3,)),
    ],
)
def test_router_counts_are_parsed(value, expected):
    assert parse_routers(value) == expected


@pytest.mark.parametrize(
    "value",
    [
        "9..1",
        "0..3",
        "a",
        "",
        "1..",
        "1...3",
        0,
        -1,
        None,
        True,
        [],
        1.5,
        "1..65",
        "1..999999999999",
    ],
)
def test_a_wrong_router_range_is_refused_with_an_example(value):
    with pytest.raises(ConfigError) as caught:
        parse_routers(value)
    assert "Invalid r" in str(caught.value)
    assert "1..9" in str(caught.value) or "at most" in str(caught.value)


def test_the_papers_design_and_the_messages_that_nested_draws_spare():
    # song2026, section 4.2: forward_full at r=1, noisy_rewrite at r=1..9, each r with routers of
    # its own
    design = make_design(range(1, 10), arms=[Arm.FORWARD_FULL, Arm.NOISY_REWRITE])
    assert len(design.settings) == 10
    assert sum(map(n_messages, design.parts)) == 1 + 45  # 1 + (1 + 2 + ... + 9)
    nested = make_design(range(1, 10), arms=[Arm.NOISY_REWRITE], draws=Draws.NESTED)
    assert [n_messages(part) for part in nested.parts] == [9] and len(nested.settings) == 9


@pytest.mark.parametrize(
    ("options", "clean", "noisy"),
    [
        (
            {"clean_replicates": 3, "ensemble_control": True},
            [(1, 0), (1, 1), (1, 2), (2, 0), (3, 0)],
            [0] * 3,
        ),
        ({"noisy_replicates": 2}, [(1, 0)], [0, 1] * 3),
    ],
)
def test_each_arm_has_replicates_of_its_own_and_the_ensemble_shares_its_r(options, clean, noisy):
    design = make_design([1, 2, 3], **options)
    assert [(s.level, s.replicate) for s in design.settings if s.arm == Arm.FORWARD_FULL] == clean
    assert [s.replicate for s in design.settings if s.arm == Arm.NOISY_REWRITE] == noisy


@pytest.mark.parametrize("draws", list(Draws))
def test_every_setting_belongs_to_one_router_set(draws):
    design = make_design(
        [1, 2, 5], draws=draws, replicates=2, clean_replicates=3, ensemble_control=True
    )
    assert (
        len(set(design.settings))
        == len(design.settings)
        == sum(len(part.levels) for part in design.parts)
    )


@pytest.mark.parametrize("name", ["replicates", "clean_replicates", "noisy_replicates"])
def test_no_replicate_is_refused(name):
    with pytest.raises(ConfigError, match=f"Invalid {name}: 0"):
        make_design([1], **{name: 0})


def test_controls_that_are_not_run_are_named_with_the_override():
    assert missing_controls(make_design((1, 2), ensemble_control=True, noisy_replicates=2)) == ()
    assert (
        missing_controls(make_design((1,), replicates=2)) == ()
    )  # with one router the clean baseline is its control
    (once,) = missing_controls(make_design((1,)))
    assert "noisy_replicates=2" in once
    (ensemble,) = missing_controls(make_design((1, 2, 5), noisy_replicates=2))
    assert "r = 2 and 5" in ensemble and "ensemble_control=true" in ensemble
    (direct,) = missing_controls(
        make_design((1,), arms=(Arm.FORWARD_FULL, Arm.NOISY_REWRITE), noisy_replicates=2)
    )
    assert "direct" in direct
    for arm in (Arm.DIRECT, Arm.FORWARD_FULL):  # nothing is relayed with noise
        assert missing_controls(make_design((1, 2), arms=(arm,))) == ()


def test_doses_are_percents_with_0_among_them():
    assert parse_doses([0, 0.1, 0.6, 0.2]) == (0, 10, 20, 60) and parse_doses(None) == ()
    design = make_design([1], doses=(0, 20))
    assert [s for s in design.settings if s.arm == DELETED] == [
        Setting(DELETED, 0),
        Setting(DELETED, 20),
    ]
    assert missing_controls(design) == missing_controls(make_design([1]))


@pytest.mark.parametrize(
    "value", [0.2, [0], [0.1, 0.2], [0, 1], [0, -0.1], [0, "x"], [0, True], "0,0.2", [0, 0.001], []]
)
def test_a_dose_without_a_zero_or_outside_its_range_is_refused(value):
    with pytest.raises(ConfigError):
        parse_doses(value)
