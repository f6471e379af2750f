"""API tokens: what is kept of them. Their text is shown once, to whoever made one, and is not kept at all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiToken:
    """A name, what it may do and where, and the hash by which it is known when it comes."""

    name: str
    token_hash: str  # SHA-256 of its text, in hex
    role: str = "viewer"
    namespaces: Sequence[str] | Mapping[str, str] | None = None  # where the role holds, or a role for each; None: all
    created_us: int | None = None  # None: it stands in the configuration
    expires_us: int | None = None
    author: str = ""  # who made it
