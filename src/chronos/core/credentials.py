"""Credentials inside a job: how they are recognised and masked.

Everything that leaves the service is masked:

* the values of ``auth``;
* headers and environment variables whose names look like credentials;
* the user and password of a URL, in any text.

``docs/reference/targets.md`` publishes the lists of names below.
"""

import re
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

MASK = "***"  # replaces a credential in output; in a request it means "unchanged"

#: A name that contains one of these names a credential. Case, ``-``, ``_`` and ``.`` are ignored.
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
#: A name that has one of these as a whole word names a credential, too: ``STRIPE_KEY``, ``X-Auth``, ``dbPass``.
CREDENTIAL_WORDS = frozenset(
    ("auth", "bearer", "creds", "dsn", "jwt", "key", "keys", "otp", "pass", "pat", "pwd", "session", "sshpass")
)
#: Fields of ``auth`` that are not secret: how the credential is sent.
UNMASKED_AUTH_FIELDS = frozenset(("type", "in", "name"))
MIN_SECRET_CHARS = 8  # shorter values are not masked in the output of a target

_OPTIONS_MASKED_BY_NAME = ("headers", "env")  # options whose entries are masked by name
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_PLACEHOLDER = re.compile(r"\s*\{\{[^{}]*\}\}\s*")
#: From "://" to the last "@" before the path. "/" ends it, so a text is scanned once.
_USERINFO = re.compile(r"""(:\\?/\\?/)((?:\{\{[^{}]*\}\}|\{(?!\{)|[^\s/?#"'<>{\\])+)@""")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*\Z")
_HOST = re.compile(r"""[^\s/?#"'<>\\]*""")
_PIECES = re.compile(r"[\s;,]+")


@lru_cache(maxsize=4_096)
def is_credential_name(name: str) -> bool:
    """Return whether the name of a header or environment variable looks like a credential."""
    letters = "".join(filter(str.isalnum, name)).lower()
    if any(part in letters for part in CREDENTIAL_SUBSTRINGS):
        return True
    return any(word.lower() in CREDENTIAL_WORDS for word in _WORDS.findall(name))


def hide_userinfo(text: str) -> str:
    """Replace the user and password of each URL in a text by ``***``."""
    if "@" not in text or ":" not in text:
        return text
    return _USERINFO.sub(rf"\1{MASK}@", text)


@dataclass(frozen=True, slots=True)
class Userinfo:
    """The user and password of a URL in a text, and the server they are for."""

    begin: int
    end: int
    text: str
    server: tuple[str, str]  # the scheme, and host with port


def find_userinfos(text: str) -> Iterator[Userinfo]:
    """Yield the user and password of each URL in a text, in order."""
    if "@" in text and ":" in text:
        for match in _USERINFO.finditer(text):
            scheme = _SCHEME.search(text[max(0, match.start() - 64) : match.start()])
            host = _HOST.match(text, match.end())
            server = "" if scheme is None else scheme.group().lower(), "" if host is None else host.group().lower()
            yield Userinfo(match.start(2), match.end(2), match.group(2), server)


def hide_url_credentials(value: Any) -> Any:
    """Hide the user and password of every URL in a JSON value. Returns the same object if nothing is hidden.

    Most values have nothing to hide and lists hold thousands of jobs, so a value is copied only if necessary.
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
    """Mask a JSON value of unknown shape: credentials in URLs, and fields that are named like credentials."""
    if type(value) is dict:
        return {
            name: _mask_value(item)
            if is_credential_name(name) and type(item) is not dict
            else mask_fields_by_name(item)
            for name, item in value.items()
        }
    return [mask_fields_by_name(item) for item in value] if type(value) is list else hide_url_credentials(value)


def is_masked(option: str, name: str) -> bool:
    """Return whether an entry of a target's ``auth``, ``headers`` or ``env`` is masked because of its name."""
    return (
        name not in UNMASKED_AUTH_FIELDS
        if option == "auth"
        else option in _OPTIONS_MASKED_BY_NAME and is_credential_name(name)
    )


def mask_options(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Mask the credentials in a target's options. Returns the same object if nothing is hidden."""
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
    """Mask headers or environment variables."""
    shown: dict[str, Any] = hide_url_credentials(entries)
    for name, value in entries.items():
        if is_credential_name(name):
            shown = {**shown, name: _mask_value(value)}
    return shown


def list_secrets(value: str) -> Iterator[str]:
    """Yield the secrets in a credential: texts to mask in the response and output of a target.

    ``Bearer abc…`` yields ``abc…`` too, a cookie each of its values, and basic authentication its password. Texts
    shorter than ``MIN_SECRET_CHARS`` are left out, because they would mask every "1" or "true" in an output.
    """
    pieces = {value, *_PIECES.split(value)}
    pieces |= {piece.partition("=")[2] for piece in pieces}
    scheme, _, pair = value.partition(" ")
    if scheme.lower() == "basic":
        try:
            decoded = b64decode(pair, validate=True).decode()
        except (NotBase64, ValueError):
            decoded = ""
        pieces |= {decoded, decoded.partition(":")[2]}
    return (piece for piece in sorted(pieces) if len(piece) >= MIN_SECRET_CHARS)


def list_url_secrets(text: str) -> Iterator[str]:
    """Yield the secrets in the URLs of a text."""
    for userinfo in find_userinfos(text):
        for piece in (userinfo.text, userinfo.text.partition(":")[2]):
            if len(piece) >= MIN_SECRET_CHARS:
                yield piece


def _mask_auth(auth: Any) -> Any:
    """Mask the credentials of ``auth``. A user name is shown next to a password; alone, it is the credential."""
    if type(auth) is not dict:
        return _mask_value(auth)
    shown = UNMASKED_AUTH_FIELDS | {"username"} if auth.get("password") else UNMASKED_AUTH_FIELDS
    return {name: value if name in shown else _mask_value(value) for name, value in auth.items()}


def _mask_value(value: Any) -> Any:
    """Return ``***``, or the value itself if it is empty or only a placeholder: then it holds no credential."""
    if value is None or value == "" or (type(value) is str and _PLACEHOLDER.fullmatch(value)):
        return value
    return MASK
