"""Keeps secrets out of what is recorded: every text that leaves an attempt is searched for those it was given.

An answer may hold a secret in other clothes (an echoed header, a quoted URL), so the usual ones are looked for too.
The user and password of a URL are masked wherever the URL comes from.
"""

import json
import re
from base64 import b64encode
from functools import lru_cache
from urllib.parse import quote, quote_plus

from chronos.core.credentials import MASK, hide_userinfo, list_secrets, list_url_secrets

_MAX_USERINFO_CHARS = 512  # characters of a user and password that a stream waits for
#: The end of a text that may go on as a URL with a user and password: at least its "://" or a beginning of that.
_UNFINISHED_URL = re.compile(rf""":\Z|:/\Z|://[^\s/?#"'<>@]{{0,{_MAX_USERINFO_CHARS}}}\Z""")


class SecretMask:
    """The secrets that one attempt was given."""

    __slots__ = ("_forms", "_pattern")

    def __init__(self) -> None:
        self._forms: set[str] = set()
        self._pattern: re.Pattern[str] | None = None  # of what is shown; None: not made yet, or nothing to look for

    @property
    def longest_secret_chars(self) -> int:
        """Characters of the longest text that is looked for."""
        return max(map(len, self._forms)) if self._forms else 0

    def add(self, secret: str) -> None:
        """Never show this one."""
        if secret:
            self._forms |= _list_encoded_forms(secret)
            self._pattern = None

    def add_credential(self, value: str) -> None:
        """Never show the value of a header or variable that is named like a credential, nor the parts of it."""
        for secret in list_secrets(value):
            self.add(secret)

    def add_urls(self, text: str) -> None:
        """Never show the users and passwords of the URLs in a text that the target is given."""
        for secret in list_url_secrets(text):
            self.add(secret)

    def __call__(self, text: str) -> str:
        """The text without them."""
        return hide_userinfo(self._compile().sub(MASK, text) if self._forms else text)

    def has_secret_in(self, text: str) -> bool:
        """Whether the text gives one away."""
        return bool(self._forms) and self._compile().search(text) is not None

    def _compile(self) -> re.Pattern[str]:
        if self._pattern is None:
            self._pattern = _pattern(frozenset(self._forms))
        return self._pattern

    def count_held_back_chars(self, text: str) -> int:
        """How many characters at the end of the text may be the beginning of one."""
        unfinished = _UNFINISHED_URL.search(text, max(0, len(text) - _MAX_USERINFO_CHARS - 3))
        url_chars = 0 if unfinished is None else len(text) - unfinished.start()
        return max([url_chars, *(_overlap(text, form) for form in self._forms)])


class MaskedStream:
    """The same for a text that comes in pieces: what may be the beginning of a secret waits for what follows."""

    __slots__ = ("_held", "_mask")

    def __init__(self, mask: SecretMask) -> None:
        self._mask = mask
        self._held = ""

    def feed(self, text: str) -> str:
        """The next piece without them."""
        text = self._mask(self._held + text)
        end = len(text) - self._mask.count_held_back_chars(text)
        self._held = text[end:]
        return text[:end]

    def flush(self) -> str:
        """What was held back, at the end or where the stream breaks off."""
        held, self._held = self._held, ""
        return held


@lru_cache(maxsize=1_024)
def _list_encoded_forms(secret: str) -> frozenset[str]:
    """A secret as it may be found in a text."""
    escaped = json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]
    quoted = quote(secret, safe=""), quote(secret), quote_plus(secret)
    encoded = b64encode(secret.encode("utf-8", "surrogatepass")).decode()
    return frozenset((secret, *escaped, *quoted, encoded))


@lru_cache(maxsize=1_024)
def _pattern(forms: frozenset[str]) -> re.Pattern[str]:
    longest_first = sorted(forms, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)))


def _overlap(text: str, secret: str) -> int:
    """How many characters at the end of the text are the beginning of the secret."""
    for length in range(min(len(text), len(secret) - 1), 0, -1):
        if text.endswith(secret[:length]):
            return length
    return 0
