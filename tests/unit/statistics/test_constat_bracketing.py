"""Real answers: ConStat's public models on ARC, the strongest against the weakest. Skipped where its tables are not."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[3]
TABLES = ROOT.parent / "shared" / "data" / "constat" / "tables"


@pytest.mark.skipif(not TABLES.is_dir(), reason="ConStat's tables are not in ../shared/data/constat")
def test_strong_public_models_are_not_called_beyond_weak_references():
    """Two scales called 25 % of these draws beyond reference; which of the models remember ARC is not known."""
    path = ROOT / "tests" / "golden" / "statistics" / "constat_bracketing.py"
    spec = importlib.util.spec_from_file_location("constat_bracketing", path)
    rebuilt = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(rebuilt)
    rebuilt.DRAWS = 300
    two, three, bracketed = rebuilt.called(TABLES / "arc_rephrase.csv", weak=True, rng=np.random.default_rng(1))
    assert two > 0.15 and three > 0.15 and bracketed == 0
