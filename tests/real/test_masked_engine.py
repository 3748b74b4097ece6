"""The masked engine on a tiny BERT against the authors' loop, written out in
tests/golden/crows/make_tiny.py."""

import asyncio
import json
import runpy
from pathlib import Path

import pytest
from published_items import items_of

from audit.core.errors import EngineLoadError
from audit.core.records import FinishReason, GenerationRequest
from audit.engines.config import ModelConfig
from audit.engines.masked_engine import MaskedEngine
from audit.engines.weights import resolve_weights

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "crows"


@pytest.mark.real
def test_the_engine_gives_what_the_authors_loop_gives(shared_data: Path, tmp_path: Path) -> None:
    runpy.run_path(str(GOLDEN / "make_tiny.py"))["make"](tmp_path / "tiny")
    stored = json.loads((GOLDEN / "pll.json").read_text())
    items = items_of("crows_pairs", shared_data / "crows_pairs" / "crows_pairs_anonymized.csv")
    config = ModelConfig(name="tiny", engine="masked_lm", path=str(tmp_path / "tiny"))
    engine = MaskedEngine(config, resolve_weights(config), "tiny/0")
    requests = [
        GenerationRequest("", item.id, "", 0, continuations=item.options) for item in items[:20]
    ]
    refused = GenerationRequest("Say it.", "x", "", 0)

    async def run() -> list:  # type: ignore[type-arg]
        await engine.start()
        return await engine.run([*requests, refused])

    *scored, dead = asyncio.run(run())
    for generation, pair in zip(scored, stored["pll"], strict=False):
        assert (
            generation.finish_reason == FinishReason.SCORED
            and generation.request_sha256.startswith("tokens:")
        )
        assert generation.option_logprobs == pytest.approx(pair, abs=2e-3)
    assert dead.error is not None and "neither generates" in dead.error


@pytest.mark.real
def test_a_folder_that_holds_no_masked_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    config = ModelConfig(name="causal", engine="masked_lm", path=str(tmp_path))
    with pytest.raises(EngineLoadError):
        asyncio.run(MaskedEngine(config, resolve_weights(config), "causal/0").start())
