"""Password hashes. New hashes use argon2; bcrypt hashes are accepted too.

bcrypt only uses the first 72 bytes of a password.
"""

import re

import bcrypt
from argon2 import Parameters, PasswordHasher, extract_parameters
from argon2.exceptions import Argon2Error, InvalidHashError

from chronos.errors import Invalid

_BCRYPT = re.compile(r"\$2[abxy]\$(\d\d)\$[./A-Za-z0-9]{53}", re.ASCII)
_BCRYPT_BYTES = 72
_ROUNDS = range(4, 17)  # powers of two; each step doubles the time, up to seconds
_ARGON2 = PasswordHasher()
_ARGON2_FORM = re.compile(
    r"\$argon2(?:id|i|d)\$(?:v=\d+\$)?m=\d+,t=\d+,p=\d+\$[A-Za-z0-9+/]+\$[A-Za-z0-9+/]+", re.ASCII
)
_VERSIONS = (16, 18, 19)  # of argon2; its library reports 18 if the hash names none
_MAX_KIB, _MAX_PASSES, _MAX_LANES = 1 << 20, 64, 64  # of argon2; each login uses that much memory and time
_MIN_SALT, _MIN_HASH = 8, 4  # bytes, by its specification


def hash_password(password: str) -> str:
    """Hash a password for the configuration."""
    return _ARGON2.hash(password)


def check_hash(text: str) -> None:
    """Raise ``Invalid`` unless a password can be verified against the hash."""
    if match := _BCRYPT.fullmatch(text):
        if int(match[1]) not in _ROUNDS:
            raise Invalid(f"is a bcrypt hash of cost {int(match[1])}, allowed {_ROUNDS[0]} to {_ROUNDS[-1]}")
        return
    if text.startswith(("$2a$", "$2b$", "$2x$", "$2y$")):
        raise Invalid(f"is a bcrypt hash of {len(text)} characters instead of 60")
    try:
        parameters = extract_parameters(text if _ARGON2_FORM.fullmatch(text) else "")
    except (InvalidHashError, ValueError):
        raise Invalid("is neither an argon2 ($argon2id$…) nor a bcrypt ($2b$…) hash of a password") from None
    if fault := _argon2_fault(parameters):
        raise Invalid(f"is an argon2 hash {fault}")


def _argon2_fault(parameters: Parameters) -> str | None:
    """Return why a hash with these parameters cannot or must not be used, or None."""
    if parameters.version not in _VERSIONS:
        return f"of version {parameters.version}, known are {_VERSIONS[0]} and {_VERSIONS[-1]}"
    if parameters.salt_len < _MIN_SALT or parameters.hash_len < _MIN_HASH:
        return f"that was cut off: its salt has {parameters.salt_len} bytes and its hash {parameters.hash_len}"
    if not (1 <= parameters.time_cost <= _MAX_PASSES and 1 <= parameters.parallelism <= _MAX_LANES):
        costs = f"t={parameters.time_cost}, p={parameters.parallelism}"
        return f"with {costs}; allowed: t from 1 to {_MAX_PASSES}, p from 1 to {_MAX_LANES}"
    min_kib = 8 * parameters.parallelism
    if not min_kib <= parameters.memory_cost <= _MAX_KIB:
        return (
            f"of m={parameters.memory_cost}; with p={parameters.parallelism} allowed are {min_kib} to {_MAX_KIB} (KiB)"
        )
    return None


def is_password_right(known: str, password: str) -> bool:
    """Verify a password against a hash. Slow: call it in a thread."""
    try:
        if known.startswith("$2"):
            return bcrypt.checkpw(password.encode()[:_BCRYPT_BYTES], known.encode())
        return _ARGON2.verify(known, password)
    except (Argon2Error, ValueError):
        return False
