"""API tokens: 256 bits, shown once, kept as hashes: those of the configuration, and those of a small file beside it.

The file is JSON, replaced as a whole, and read again when it changes, so that servers that share it share its tokens.
A token is drawn at random, so a plain SHA-256 of it is as good as a slow hash, and finding it costs nothing.
"""

import hashlib
import os
import secrets
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from chronos.errors import Conflict, Invalid, NotFound, StoreBroken, StoreUnavailable
from chronos.service.shapes.names import fault_of_name

PREFIX = "chr_"
MAX_TOKENS = 10_000
ROLES = ("viewer", "operator", "admin")


class Token(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What is kept of a token."""

    name: str
    token_hash: str
    role: str = "viewer"
    namespaces: list[str] | dict[str, str] | None = None
    created_us: int | None = None
    expires_us: int | None = None


def hash_token(token: str) -> str:
    """What is kept of its text."""
    return hashlib.sha256(token.encode()).hexdigest()


def new_token() -> str:
    """A token that nobody has had."""
    return PREFIX + secrets.token_urlsafe(32)


class TokenBook:
    """The tokens that are known: fixed ones by name, and those of a file, which may be added to."""

    def __init__(self, fixed: Mapping[str, Mapping[str, Any]] | None = None, path: Path | None = None) -> None:
        self._fixed = [_read(name, entry) for name, entry in (fixed or {}).items()]
        self._path = path
        self._seen: tuple[int, int, int] | None = None  # of the file, when it was read last
        self._kept: list[Token] = []
        self._by_hash: dict[str, Token] = {}
        self._load(force=True)

    def find(self, token: str, now_us: int) -> Token | None:
        """The entry of a token that is in force."""
        self._load()
        found = self._by_hash.get(hash_token(token))
        expired = found is not None and found.expires_us is not None and found.expires_us <= now_us
        return None if expired else found

    def entries(self) -> list[Token]:
        """All of them, by name."""
        self._load()
        return sorted(self._by_hash.values(), key=lambda token: token.name)

    def add(
        self,
        name: str,
        *,
        role: str,
        namespaces: list[str] | dict[str, str] | None,
        now_us: int,
        expires_us: int | None = None,
    ) -> tuple[str, Token]:
        """Make a token: its text, which is not kept, and its entry. ``Conflict`` when the name is taken."""
        path = self._file()
        self._load()
        if any(one.name == name for one in self._by_hash.values()):
            raise Conflict(f'a token named "{name}" exists already')
        if len(self._kept) >= MAX_TOKENS:
            raise Conflict(f"there are {MAX_TOKENS} tokens already; delete some that are not used")
        text = new_token()
        entry = Token(
            name=name,
            token_hash=hash_token(text),
            role=role,
            namespaces=namespaces,
            created_us=now_us,
            expires_us=expires_us,
        )
        self._write(path, [*self._kept, entry])
        return text, entry

    def remove(self, name: str) -> Token:
        """Forget a token; whoever uses it is nobody from now on."""
        self._load()
        found = next((one for one in self._by_hash.values() if one.name == name), None)
        if found is None:
            raise NotFound(f'there is no token "{name[:200]}"')
        if found not in self._kept:
            raise Conflict(f'"{name}" stands in the configuration (auth.tokens); take it out there')
        self._write(self._file(), [one for one in self._kept if one is not found])
        return found

    # --- the file

    def _file(self) -> Path:
        if self._path is None:
            raise Conflict("this server keeps its tokens in its configuration (auth.tokens); add or remove them there")
        return self._path

    def _load(self, *, force: bool = False) -> None:
        seen = _stamp(self._path)
        if seen == self._seen and not force:
            return
        self._kept = [] if self._path is None or seen is None else _read_file(self._path)
        self._by_hash = {token.token_hash: token for token in (*self._kept, *self._fixed)}
        self._seen = seen

    def _write(self, path: Path, tokens: list[Token]) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # for its owner alone
            with os.fdopen(handle, "wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(tokens), indent=2))
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(path)
        except OSError as error:
            raise StoreUnavailable(f"{path} cannot be written: {error.strerror or error}") from error
        self._load(force=True)


def _stamp(path: Path | None) -> tuple[int, int, int] | None:
    try:
        stat = None if path is None else path.stat()
    except OSError:
        return None
    return None if stat is None else (stat.st_ino, stat.st_mtime_ns, stat.st_size)


def _read_file(path: Path) -> list[Token]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[Token])
    except (OSError, msgspec.DecodeError) as error:
        raise StoreBroken(f"{path} cannot be read as a list of tokens: {error}") from None


def _read(name: str, entry: Mapping[str, Any]) -> Token:
    try:
        token = msgspec.convert({"name": name, **entry}, Token)
    except (msgspec.ValidationError, TypeError) as error:
        raise Invalid(f"auth.tokens.{name}: {error}") from None
    if len(token.token_hash) != 64 or token.role not in ROLES:
        raise Invalid(f"auth.tokens.{name} needs a token_hash (SHA-256 in hex) and a role: {', '.join(ROLES)}")
    if fault := fault_of_name(name):
        raise Invalid(f'auth.tokens: "{name[:64]}" {fault}')
    return token
