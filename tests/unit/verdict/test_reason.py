"""A reason is a code with numbers; its sentence is made in one place."""

import pytest

from audit.verdict.result import Reason, because, json_ready, listed, sentence, sentences


def test_a_template_says_numbers_in_the_formats_of_the_house() -> None:
    texts = {"fell": "{model}: {low:bare} to {high:points}, {share:percent}, {p:p}, n = {n:,} ({names:listed})"}
    reason = because("fell", model="m", low=0.012, high=0.034, share=0.98, p=0.0304, n=1200, names=["a", "b", "c"])
    assert sentence(reason, texts) == "m: 1.2 to 3.4 points, 98 %, p = .03, n = 1,200 (a, b and c)"


def test_a_function_says_what_hangs_on_the_numbers_and_a_gate_says_its_own() -> None:
    texts = {"rose": lambda rise: "up" if rise > 0 else "down"}
    assert sentences([because("rose", rise=-1), Reason("gate_x", {}, "As the gate says.")], texts) == (
        "down",
        "As the gate says.",
    )


@pytest.mark.parametrize("reason", [because("unknown"), because("fell")])
def test_a_missing_text_or_number_is_no_empty_sentence(reason: Reason) -> None:
    with pytest.raises(KeyError):
        sentence(reason, {"fell": "by {drop:points}"})


def test_lists() -> None:
    assert (listed(["a"]), listed([])) == ("a", "")


def test_a_reason_within_a_measurement_is_its_code_and_numbers_in_json() -> None:
    found = json_ready({"why": Reason("few", {"n": 25, "se": 0.12345678}, "Few.")})
    assert found == {"why": {"code": "few", "numbers": {"n": 25, "se": 0.123457}}}
