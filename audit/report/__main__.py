"""`python -m audit.report ...` is `audit report ...`."""

from audit.__main__ import console

if __name__ == "__main__":
    console("report")
