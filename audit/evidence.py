"""`python -m audit.evidence ...` is `audit evidence ...`."""

from audit.__main__ import console

if __name__ == "__main__":
    console("evidence")
