"""`python -m audit.gate ...` is `audit gate ...`."""

from audit.__main__ import console

if __name__ == "__main__":
    console("gate")
