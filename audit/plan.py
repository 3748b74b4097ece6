"""`python -m audit.plan ...` is `audit plan ...`."""

from audit.__main__ import console

if __name__ == "__main__":
    console("plan")
