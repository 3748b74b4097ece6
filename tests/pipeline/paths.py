"""Where the checkout and its `ray` command are."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RAY = Path(sys.executable).parent / "ray"
