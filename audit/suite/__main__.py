"""`python -m audit.suite ...` is `audit suite ...`."""

from audit.__main__ import console

if __name__ == "__main__":
    console("suite")
