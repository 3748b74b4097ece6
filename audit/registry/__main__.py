"""`python -m audit.registry ...` is `audit registry ...`."""

from audit.__main__ import console

if __name__ == "__main__":
    console("registry")
