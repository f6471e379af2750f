"""Commands for API tokens: create and revoke."""

from dataclasses import dataclass

from chronos.core.node import Actor
from chronos.core.token import ApiToken
from chronos.store.commands.base import SYSTEM, Command

MAX_TOKENS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateToken(Command[None]):
    """Store a new API token, with its author and the time.

    - Idempotent: the same token may be sent again.
    - Raised: ``Conflict`` if the name is taken, or if ``MAX_TOKENS`` tokens exist.
    """

    token: ApiToken
    now_us: int
    actor: Actor = SYSTEM


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokeToken(Command[None]):
    """Delete an API token. Later reads do not find it. Raises ``NotFound``."""

    name: str
    now_us: int
    actor: Actor = SYSTEM
