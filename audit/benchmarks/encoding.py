"""What a text that is not UTF-8 was probably written in, for the advice to its owner. Never used to read it (pure)."""

# iconv's name -> Python's. Windows-1252 holds Latin-1's printable characters.
_WESTERN = {"WINDOWS-1252": "cp1252", "MACINTOSH": "mac_roman"}
_USUAL = frozenset("àáâãäåæçèéêëìíîïñòóôõöøùúûüýÿßœ’‘“”–—…°²½€£§¿¡")
_LIKELY = 0.6  # share of the characters outside ASCII that have to make sense


def likely_encoding(data: bytes) -> str | None:
    """Such as "UTF-16LE", under the name that iconv knows; None where nothing fits.

    UTF-16 shows by its mark, or by a NUL beside each ASCII character. Between the one-byte encodings of western Europe
    decides which of them makes small accented letters and typographic marks of the bytes outside ASCII.
    """
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "UTF-16"
    if b"\0" in data:
        even, odd = data[::2].count(0), data[1::2].count(0)
        return None if even == odd else "UTF-16LE" if odd > even else "UTF-16BE"
    best = max(_WESTERN, key=lambda name: _sense(data, _WESTERN[name]))
    return best if _sense(data, _WESTERN[best]) >= _LIKELY else None


def _sense(data: bytes, encoding: str) -> float:
    """Share (0-1) of the characters outside ASCII that are usual where they stand."""
    text = f" {data.decode(encoding, errors='replace')} "
    places = [i for i, character in enumerate(text) if character > "\x7f"]
    return sum(_usual(*text[i - 1 : i + 2]) for i in places) / max(len(places), 1)


def _usual(before: str, character: str, after: str) -> bool:
    """No capital within a word of small letters, and no run of accents: another script looks like that."""
    if character.isalpha() and (before.isalpha() and before > "\x7f") and (after.isalpha() and after > "\x7f"):
        return False
    if character in _USUAL:
        return True
    return character.lower() in _USUAL and not before.islower() and not (before.isupper() and after.islower())
