"""SecretMask: replaces secrets in every text that leaves an attempt.

A response may contain a secret in another form (JSON-escaped, URL-quoted, base64), so the usual forms are masked too.
User names and passwords in URLs are always masked.
"""

import json
import re
from base64 import b64encode
from functools import lru_cache
from urllib.parse import quote, quote_plus

from chronos.core.credentials import MASK, hide_userinfo, list_secrets, list_url_secrets

_MAX_USERINFO_CHARS = 512  # of a user name and password that a stream waits for
#: The end of a text that may continue as a URL with a user name and password: "://" or a part of it.
_UNFINISHED_URL = re.compile(rf""":\Z|:/\Z|://[^\s/?#"'<>@]{{0,{_MAX_USERINFO_CHARS}}}\Z""")


class SecretMask:
    """The secrets of one attempt, in every form that is searched for."""

    __slots__ = ("_forms", "_pattern")

    def __init__(self) -> None:
        self._forms: set[str] = set()
        self._pattern: re.Pattern[str] | None = None  # of all forms; None: not compiled yet

    @property
    def longest_secret_chars(self) -> int:
        """The length of the longest text that is searched for."""
        return max(map(len, self._forms)) if self._forms else 0

    def add(self, secret: str) -> None:
        """Mask this secret."""
        if secret:
            self._forms |= _list_encoded_forms(secret)
            self._pattern = None

    def add_credential(self, value: str) -> None:
        """Mask the value of a header or variable that is named like a credential, and its parts."""
        for secret in list_secrets(value):
            self.add(secret)

    def add_urls(self, text: str) -> None:
        """Mask the user names and passwords of the URLs in a text."""
        for secret in list_url_secrets(text):
            self.add(secret)

    def __call__(self, text: str) -> str:
        """Return the text with all secrets masked."""
        return hide_userinfo(self._compile().sub(MASK, text) if self._forms else text)

    def has_secret_in(self, text: str) -> bool:
        """Whether a text contains a secret."""
        return bool(self._forms) and self._compile().search(text) is not None

    def _compile(self) -> re.Pattern[str]:
        if self._pattern is None:
            self._pattern = _pattern(frozenset(self._forms))
        return self._pattern

    def count_held_back_chars(self, text: str) -> int:
        """Return how many characters at the end of a text may be the start of a secret."""
        unfinished = _UNFINISHED_URL.search(text, max(0, len(text) - _MAX_USERINFO_CHARS - 3))
        url_chars = 0 if unfinished is None else len(text) - unfinished.start()
        return max([url_chars, *(_overlap(text, form) for form in self._forms)])


class MaskedStream:
    """Masks a text that arrives in pieces. A possible start of a secret is held back until more text arrives."""

    __slots__ = ("_held", "_mask")

    def __init__(self, mask: SecretMask) -> None:
        self._mask = mask
        self._held = ""

    def feed(self, text: str) -> str:
        """Return the next piece, masked."""
        text = self._mask(self._held + text)
        end = len(text) - self._mask.count_held_back_chars(text)
        self._held = text[end:]
        return text[:end]

    def flush(self) -> str:
        """Return the text that was held back, at the end or at a gap of the stream."""
        held, self._held = self._held, ""
        return held


@lru_cache(maxsize=1_024)
def _list_encoded_forms(secret: str) -> frozenset[str]:
    """Return a secret in all forms in which a text may contain it."""
    escaped = json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]
    quoted = quote(secret, safe=""), quote(secret), quote_plus(secret)
    encoded = b64encode(secret.encode("utf-8", "surrogatepass")).decode()
    return frozenset((secret, *escaped, *quoted, encoded))


@lru_cache(maxsize=1_024)
def _pattern(forms: frozenset[str]) -> re.Pattern[str]:
    longest_first = sorted(forms, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)))


def _overlap(text: str, secret: str) -> int:
    """Return how many characters at the end of the text are the start of the secret."""
    for length in range(min(len(text), len(secret) - 1), 0, -1):
        if text.endswith(secret[:length]):
            return length
    return 0
