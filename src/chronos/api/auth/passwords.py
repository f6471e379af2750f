"""Passwords: what is kept of them, and whether one is right. New hashes are argon2's; bcrypt's are understood too.

Only the first 72 bytes of a password count for bcrypt, as for everything else that reads its hashes.
"""

import re

import bcrypt
from argon2 import Parameters, PasswordHasher, extract_parameters
from argon2.exceptions import Argon2Error, InvalidHashError

from chronos.errors import Invalid

_BCRYPT = re.compile(r"\$2[abxy]\$(\d\d)\$[./A-Za-z0-9]{53}", re.ASCII)
_BCRYPT_BYTES = 72
_ROUNDS = range(4, 17)  # powers of two, which take seconds; each more takes twice as long
_ARGON2 = PasswordHasher()
_ARGON2_FORM = re.compile(
    r"\$argon2(?:id|i|d)\$(?:v=\d+\$)?m=\d+,t=\d+,p=\d+\$[A-Za-z0-9+/]+\$[A-Za-z0-9+/]+", re.ASCII
)
_VERSIONS = (16, 18, 19)  # of argon2; 18 is how its library calls one that is not said
_MOST_KIB, _MOST_PASSES, _MOST_LANES = 1 << 20, 64, 64  # of argon2; each login takes that much memory and time
_LEAST_SALT, _LEAST_HASH = 8, 4  # bytes, by its specification


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
        used = extract_parameters(text if _ARGON2_FORM.fullmatch(text) else "")
    except (InvalidHashError, ValueError):
        raise Invalid("is neither an argon2 ($argon2id$…) nor a bcrypt ($2b$…) hash of a password") from None
    if fault := _argon2_fault(used):
        raise Invalid(f"is an argon2 hash {fault}")


def _argon2_fault(used: Parameters) -> str | None:
    """Why no password could be held against a hash that was made so, or should not be; None: it can."""
    if used.version not in _VERSIONS:
        return f"of version {used.version}, known are {_VERSIONS[0]} and {_VERSIONS[-1]}"
    if used.salt_len < _LEAST_SALT or used.hash_len < _LEAST_HASH:
        return f"that was cut off: its salt has {used.salt_len} bytes and its hash {used.hash_len}"
    if not (1 <= used.time_cost <= _MOST_PASSES and 1 <= used.parallelism <= _MOST_LANES):
        return f"of t={used.time_cost}, p={used.parallelism}; allowed are 1 to {_MOST_PASSES} and 1 to {_MOST_LANES}"
    least_kib = 8 * used.parallelism
    if not least_kib <= used.memory_cost <= _MOST_KIB:
        return f"of m={used.memory_cost}; with p={used.parallelism} allowed are {least_kib} to {_MOST_KIB} (KiB)"
    return None


def is_password_right(known: str, password: str) -> bool:
    """Whether a password is the one of a hash. Takes its time: call it beside the event loop."""
    try:
        if known.startswith("$2"):
            return bcrypt.checkpw(password.encode()[:_BCRYPT_BYTES], known.encode())
        return _ARGON2.verify(known, password)
    except (Argon2Error, ValueError):
        return False
