"""Keeps secrets out of what is recorded: every text that leaves an attempt is searched for those it was given.

An answer may hold a secret in other clothes (an echoed header, a quoted URL), so the usual ones are looked for too.
"""

import json
import re
from base64 import b64encode
from urllib.parse import quote, quote_plus

MASK = "***"


class Mask:
    """The secrets that one attempt was given."""

    __slots__ = ("_pattern", "_shown")

    def __init__(self) -> None:
        self._shown: set[str] = set()
        self._pattern: re.Pattern[str] | None = None

    @property
    def longest(self) -> int:
        """Characters of the longest text that is looked for."""
        return max(map(len, self._shown)) if self._shown else 0

    def add(self, secret: str) -> None:
        """Never show this one."""
        if not secret:
            return
        escaped = json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]
        quoted = quote(secret, safe=""), quote(secret), quote_plus(secret)
        encoded = b64encode(secret.encode("utf-8", "surrogatepass")).decode()
        self._shown.update((secret, *escaped, *quoted, encoded))
        longest_first = sorted(self._shown, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)))

    def __call__(self, text: str) -> str:
        """The text without them."""
        return text if self._pattern is None else self._pattern.sub(MASK, text)

    def is_in(self, text: str) -> bool:
        """Whether the text gives one away."""
        return self._pattern is not None and self._pattern.search(text) is not None

    def held_back(self, text: str) -> int:
        """How many characters at the end of the text may be the beginning of one."""
        return max((_overlap(text, shown) for shown in self._shown), default=0)


class MaskedStream:
    """The same for a text that comes in pieces: what may be the beginning of a secret waits for what follows."""

    __slots__ = ("_held", "_mask")

    def __init__(self, mask: Mask) -> None:
        self._mask = mask
        self._held = ""

    def feed(self, text: str) -> str:
        """The next piece without them."""
        if not self._mask.longest:
            return text
        text = self._mask(self._held + text)
        shown = len(text) - self._mask.held_back(text)
        self._held = text[shown:]
        return text[:shown]

    def flush(self) -> str:
        """What was held back, at the end or where the stream breaks off."""
        held, self._held = self._held, ""
        return held


def _overlap(text: str, secret: str) -> int:
    """How many characters at the end of the text are the beginning of the secret."""
    for length in range(min(len(text), len(secret) - 1), 0, -1):
        if text.endswith(secret[:length]):
            return length
    return 0
