"""Credentials inside a job: which values they are, and how a job is shown without them.

Three kinds of values are masked in everything that leaves the service: the values of ``auth``, headers and environment
variables whose names look like credentials, and the user and password of a URL, in any text. The lists of names are
below; ``docs/reference/targets.md`` publishes them.
"""

import re
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

MASK = "***"  # in place of a credential, wherever it is shown; sent back, it means "unchanged"

#: A name that has one of these anywhere in it, without regard to case, ``-``, ``_`` and ``.``, names a credential.
CREDENTIAL_SUBSTRINGS = (
    "accesskey",
    "apikey",
    "authentication",
    "authorization",
    "cookie",
    "credential",
    "passphrase",
    "passwd",
    "password",
    "privatekey",
    "secret",
    "signature",
    "token",
)
#: So does a name that has one of these as a word of its own: ``STRIPE_KEY``, ``X-Auth``, ``dbPass``.
CREDENTIAL_WORDS = frozenset(
    ("auth", "bearer", "creds", "dsn", "jwt", "key", "keys", "otp", "pass", "pat", "pwd", "session", "sshpass")
)
#: Fields of ``auth`` that say how a credential is sent.
UNMASKED_AUTH_FIELDS = frozenset(("type", "in", "name"))
MIN_SECRET_CHARS = 8  # characters of a value that is looked for in what a target answers or prints

_OPTIONS_MASKED_BY_NAME = ("headers", "env")  # options whose entries are credentials by their names
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_PLACEHOLDER = re.compile(r"\s*\{\{[^{}]*\}\}\s*")
#: From "://" to the last "@" before the path. "/" ends it, so a text is gone through once.
_USERINFO = re.compile(r"""(:\\?/\\?/)((?:\{\{[^{}]*\}\}|\{(?!\{)|[^\s/?#"'<>{\\])+)@""")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*\Z")
_HOST = re.compile(r"""[^\s/?#"'<>\\]*""")
_PIECES = re.compile(r"[\s;,]+")


@lru_cache(maxsize=4_096)
def is_credential_name(name: str) -> bool:
    """Whether the name of a header or of an environment variable looks like that of a credential."""
    letters = "".join(filter(str.isalnum, name)).lower()
    if any(part in letters for part in CREDENTIAL_SUBSTRINGS):
        return True
    return any(word.lower() in CREDENTIAL_WORDS for word in _WORDS.findall(name))


def hide_userinfo(text: str) -> str:
    """The text with ``***`` in place of the user and password of each URL in it."""
    if "@" not in text or ":" not in text:
        return text
    return _USERINFO.sub(rf"\1{MASK}@", text)


@dataclass(frozen=True, slots=True)
class Userinfo:
    """The user and password of a URL in a text, and where they lead."""

    begin: int
    end: int
    text: str
    leads_to: tuple[str, str]  # the scheme, and host and port


def find_userinfos(text: str) -> Iterator[Userinfo]:
    """The user and password of each URL in a text, from its beginning to its end."""
    if "@" in text and ":" in text:
        for found in _USERINFO.finditer(text):
            scheme = _SCHEME.search(text[max(0, found.start() - 64) : found.start()])
            host = _HOST.match(text, found.end())
            leads_to = "" if scheme is None else scheme.group().lower(), "" if host is None else host.group().lower()
            yield Userinfo(found.start(2), found.end(2), found.group(2), leads_to)


def hide_url_credentials(value: Any) -> Any:
    """The same JSON value without the user and password of any URL in it; the very same object where there is none.

    Nearly all values have none, and jobs are listed by the thousand: a value is copied only when something is hidden.
    """
    kind = type(value)
    if kind is str:
        return hide_userinfo(value) if "@" in value else value
    if kind is dict:
        entries = value.items()
    elif kind is list or kind is tuple:
        entries = enumerate(value)
    else:
        return value
    shown = value
    for place, item in entries:
        kind = type(item)
        if kind is str and "@" not in item:
            continue
        hidden = hide_url_credentials(item)
        if hidden is not item and hidden != item:
            if shown is value:
                shown = dict(value) if type(value) is dict else list(value)
            shown[place] = hidden
    return shown


def mask_fields_by_name(value: Any) -> Any:
    """A JSON value of unknown shape, whose fields that are named like credentials are masked as well."""
    if type(value) is dict:
        return {
            name: _mask_value(item)
            if is_credential_name(name) and type(item) is not dict
            else mask_fields_by_name(item)
            for name, item in value.items()
        }
    return [mask_fields_by_name(item) for item in value] if type(value) is list else hide_url_credentials(value)


def is_masked(option: str, name: str) -> bool:
    """Whether an entry of a target's ``auth``, ``headers`` or ``env`` is masked by its name; no other option's is."""
    return (
        name not in UNMASKED_AUTH_FIELDS
        if option == "auth"
        else option in _OPTIONS_MASKED_BY_NAME and is_credential_name(name)
    )


def mask_options(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """A target's options as anyone may see them; the very same object where nothing has to be hidden."""
    shown = options
    for option, value in options.items():
        kind = type(value)
        if option == "auth":
            hidden = _mask_auth(value)
        elif kind is dict:
            hidden = _mask_entries(value) if option in _OPTIONS_MASKED_BY_NAME else hide_url_credentials(value)
        elif kind is list or (kind is str and "@" in value):
            hidden = hide_url_credentials(value)
        else:
            continue
        if hidden is not value:
            if shown is options:
                shown = dict(options)
            shown[option] = hidden  # type: ignore[index]  # a copy
    return shown


def _mask_entries(entries: dict[str, Any]) -> dict[str, Any]:
    """Headers or environment variables."""
    shown: dict[str, Any] = hide_url_credentials(entries)
    for name, value in entries.items():
        if is_credential_name(name):
            shown = {**shown, name: _mask_value(value)}
    return shown


def list_secrets(value: str) -> Iterator[str]:
    """What must not be found in the answer or output of a target that was given a credential: it and its parts.

    ``Bearer abc…`` gives ``abc…`` too, a cookie each of its values, and basic authentication its password. What is
    shorter than ``MIN_SECRET_CHARS`` is left out: it would hide every "1" or "true" of an output.
    """
    found = {value, *_PIECES.split(value)}
    found |= {piece.partition("=")[2] for piece in found}
    scheme, _, pair = value.partition(" ")
    if scheme.lower() == "basic":
        try:
            decoded = b64decode(pair, validate=True).decode()
        except (NotBase64, ValueError):
            decoded = ""
        found |= {decoded, decoded.partition(":")[2]}
    return (piece for piece in sorted(found) if len(piece) >= MIN_SECRET_CHARS)


def list_url_secrets(text: str) -> Iterator[str]:
    """The same for the users and passwords of the URLs in a text."""
    for found in find_userinfos(text):
        for piece in (found.text, found.text.partition(":")[2]):
            if len(piece) >= MIN_SECRET_CHARS:
                yield piece


def _mask_auth(auth: Any) -> Any:
    """``auth`` without its credentials. A user name is shown beside a password; alone, it is the credential."""
    if type(auth) is not dict:
        return _mask_value(auth)
    shown = UNMASKED_AUTH_FIELDS | {"username"} if auth.get("password") else UNMASKED_AUTH_FIELDS
    return {name: value if name in shown else _mask_value(value) for name, value in auth.items()}


def _mask_value(value: Any) -> Any:
    """``***``; but what is empty, or one placeholder and nothing else, holds no credential."""
    if value is None or value == "" or (type(value) is str and _PLACEHOLDER.fullmatch(value)):
        return value
    return MASK
