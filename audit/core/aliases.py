"""Show the URL of object storage in place of the path of its working copy."""

from pathlib import Path

_urls: dict[Path, str] = {}  # the URL of each working copy of this process, by its folder


def register_alias(folder: Path, url: str) -> None:
    """Show the URL of object storage in every text for people.

    Parameters
    ----------
    folder : Path
        The local folder of the working copy.
    url : str
        The URL that is shown instead of the folder's path.
    """
    _urls[folder] = url


def named(text: object) -> str:
    """Return a text in which the URL of each working copy replaces the path of the copy."""
    shown = str(text)
    for folder, url in _urls.items():
        shown = shown.replace(str(folder), url)
    return shown
