"""`python -m audit.variants ...` is `audit variants ...`."""

from audit.__main__ import console

if __name__ == "__main__":
    console("variants")
