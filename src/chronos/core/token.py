"""API tokens as stored: only the hash. The text of a token is shown once, when it is created."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiToken:
    """A named credential: its hash, its role and the namespaces where the role applies."""

    name: str
    token_hash: str  # SHA-256 of the text, in hex
    role: str = "viewer"
    namespaces: Sequence[str] | Mapping[str, str] | None = (
        None  # namespaces of the role, or a role per namespace; None: all
    )
    created_us: int | None = None  # None: from the configuration
    expires_us: int | None = None
    author: str = ""  # the user who created it
