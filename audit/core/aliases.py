"""Name folders as people know them: a working copy of object storage by its URL."""

from pathlib import Path

_urls: dict[Path, str] = {}  # the URL that each folder of this process is a copy of


def register_alias(folder: Path, url: str) -> None:
    """Show `url` instead of `folder` in every text for people."""
    _urls[folder] = url


def named(text: object) -> str:
    """Return a text for people, with the URL in place of every path of a working copy."""
    shown = str(text)
    for folder, url in _urls.items():
        shown = shown.replace(str(folder), url)
    return shown
