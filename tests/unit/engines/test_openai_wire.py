"""Chat completions on the wire: bodies as endpoints send them, read without a socket."""

from __future__ import annotations

import pytest

from audit.engines.openai_wire import same_model


@pytest.mark.parametrize(
    ("asked", "told", "same"),
    [
        ("gpt-4o", "gpt-4o-2024-08-06", True),
        ("gpt-4o", "gpt-4o-mini", False),
        ("gpt-4o", "gpt-4o-mini-2024-07-18", False),
        ("claude-opus-4", "claude-opus-4-1-20250805", False),
        ("mistral-large-latest", "mistral-large-2411", True),
        ("llama3:latest", "llama3", True),
        ("Qwen/Qwen3-8B", "qwen3-8b", True),
        ("qwen3", "qwen3-8b", False),
    ],
)
def test_which_name_in_a_reply_is_the_models_own(asked: str, told: str, same: bool) -> None:
    assert same_model(asked, told) is same
