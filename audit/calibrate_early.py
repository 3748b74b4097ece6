"""`python -m audit.calibrate_early`: what stopping a sweep early costs and saves, see `audit.sweep.calibrate_early`."""

from __future__ import annotations

import sys

from audit.sweep.calibrate_early import main

if __name__ == "__main__":
    sys.exit(main())
