"""Which replica answers: a question's own, unless it lags, is slow or is gone."""

from collections import Counter

from audit.runtime.call import SLACK, Balancer


def homes(balancer: Balancer, questions: int = 200) -> list[int]:
    """Where each goes while nothing waits."""
    replicas = []
    for i in range(questions):
        replica = balancer.take(f"q{i}")
        balancer.give_back(replica, 1)
        replicas.append(replica)
    return replicas


def test_a_question_stays_with_its_replica_until_that_lags_by_more_than_the_slack() -> None:
    balancer = Balancer(4)
    home = balancer.take("q")
    choices = [balancer.take("q") for _ in range(SLACK + 1)]
    # 1 + SLACK there, none elsewhere
    assert choices == [home] * SLACK + [choices[-1]] and choices[-1] != home


def test_all_replicas_have_questions_of_their_own() -> None:
    assert set(Counter(homes(Balancer(8))).keys()) == set(range(8))


def test_a_slow_replica_is_spared_before_its_queue_is_long() -> None:
    balancer = Balancer(2)
    for replica, seconds in ((0, 1.0), (1, 4.0)):
        for _ in range(50):
            balancer.give_back(replica, 0, seconds)
    slow = next(f"q{i}" for i, home in enumerate(homes(Balancer(2))) if home == 1)
    # Paces 1 and 4, mean 2.5: a request there counts 1.6, one at the other .4; the twenty-first
    # would make it 33.6 > .4 + 32.
    assert SLACK == 32 and [balancer.take(slow) for _ in range(22)] == [1] * 20 + [0, 0]


def test_a_lost_replicas_questions_are_spread_and_the_others_stay() -> None:
    before = homes(balancer := Balancer(4))
    assert balancer.lost(2) and balancer.lost(2)  # two threads may hear of it
    after = homes(balancer)
    assert all(b == a for b, a in zip(before, after, strict=True) if b != 2)
    assert {a for b, a in zip(before, after, strict=True) if b == 2} == {0, 1, 3}


def test_an_unreachable_replica_is_passed_over_and_then_has_its_questions_back(monkeypatch) -> None:
    now = [100.0]
    monkeypatch.setattr("audit.runtime.call.time.monotonic", lambda: now[0])
    before = homes(balancer := Balancer(3))
    balancer.unreachable(1, for_s=15.0)
    balancer.unreachable(1, for_s=15.0)  # two calls may hear of it
    assert set(homes(balancer)) == {0, 2}
    now[0] += 15.0
    assert homes(balancer) == before


def test_the_last_one_is_asked_also_while_it_is_unreachable() -> None:
    balancer = Balancer(2)
    balancer.unreachable(0, for_s=1e9)
    balancer.unreachable(1, for_s=1e9)
    assert set(homes(balancer)) == {1}
    assert balancer.lost(1)  # the other one may come back
    assert set(homes(balancer)) == {0}
    assert not balancer.lost(0) and balancer.take("q") == 0  # who asks it hears that it is gone
