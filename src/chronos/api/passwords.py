"""Passwords: what is kept of them, and whether one is right. New hashes are argon2's; bcrypt's are understood too.

Only the first 72 bytes of a password count for bcrypt, as for everything else that reads its hashes.
"""

import re

import bcrypt
from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError

from chronos.errors import Invalid

_BCRYPT = re.compile(r"\$2[abxy]\$(\d\d)\$[./A-Za-z0-9]{53}", re.ASCII)
_BCRYPT_BYTES = 72
_ROUNDS = range(4, 17)  # powers of two, which take seconds; each more takes twice as long
_ARGON2 = PasswordHasher()


def hash_password(password: str) -> str:
    """What the configuration keeps of a password."""
    return _ARGON2.hash(password)


def check_hash(text: str) -> None:
    """Raise ``Invalid`` unless a password can be held against this."""
    if found := _BCRYPT.fullmatch(text):
        if int(found[1]) not in _ROUNDS:
            raise Invalid(f"is a bcrypt hash of cost {int(found[1])}, allowed are {_ROUNDS[0]} to {_ROUNDS[-1]}")
        return
    if text.startswith(("$2a$", "$2b$", "$2x$", "$2y$")):
        raise Invalid(f"begins as a bcrypt hash does, which has 60 characters; this has {len(text)}")
    try:
        _ARGON2.check_needs_rehash(text)
    except InvalidHashError:
        raise Invalid("is neither an argon2 ($argon2id$…) nor a bcrypt ($2b$…) hash of a password") from None


def is_right(known: str, password: str) -> bool:
    """Whether a password is the one of a hash. Takes its time: call it beside the event loop."""
    try:
        if known.startswith("$2"):
            return bcrypt.checkpw(password.encode()[:_BCRYPT_BYTES], known.encode())
        return _ARGON2.verify(known, password)
    except (Argon2Error, ValueError):
        return False
