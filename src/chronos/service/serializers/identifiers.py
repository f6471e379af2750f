"""Names and ids as clients write them. A name never looks like an id, so one parameter can take either."""

import re

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}", re.ASCII)
_UUID = re.compile(r"[0-9a-fA-F]{8}(-?)[0-9a-fA-F]{4}\1[0-9a-fA-F]{4}\1[0-9a-fA-F]{4}\1[0-9a-fA-F]{12}", re.ASCII)

UUID_LENGTHS = (32, 36)


def read_id(text: str) -> bytes | None:
    """Read an id in hex or UUID form. Returns its 16 bytes, or None if the text is not an id."""
    return bytes.fromhex(text.replace("-", "")) if _UUID.fullmatch(text) else None


def id_text(value: bytes) -> str:
    """Format an id as a UUID."""
    text = value.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def find_name_fault(text: str) -> str | None:
    """Return what is wrong with a name, or None if it is valid."""
    if not NAME.fullmatch(text):
        return (
            "is not a valid name; use 1 to 200 letters, digits, dots, dashes and underscores, "
            "starting with a letter or digit"
        )
    return "looks like an id; choose another name" if len(text) in UUID_LENGTHS and read_id(text) else None
