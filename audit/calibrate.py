"""`python -m audit.calibrate ...` is `audit calibrate ...`."""

from audit.__main__ import console

if __name__ == "__main__":
    console("calibrate")
