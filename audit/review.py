"""`python -m audit.review ...` is `audit review ...`."""

from audit.__main__ import console

if __name__ == "__main__":
    console("review")
