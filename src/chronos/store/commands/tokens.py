"""Writes of API tokens: one is made, one is worth nothing any more."""

from dataclasses import dataclass

from chronos.core.node import Actor
from chronos.core.token import ApiToken
from chronos.store.commands.base import SYSTEM, Command

MAX_TOKENS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateToken(Command[None]):
    """Keep a new token, and who made it when. Sent again, it is the same token.

    Raises ``Conflict`` when the name is taken, or when there are ``MAX_TOKENS`` already.
    """

    token: ApiToken
    now_us: int
    actor: Actor = SYSTEM


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokeToken(Command[None]):
    """Forget a token: whoever reads after this does not find it. Raises ``NotFound``."""

    name: str
    now_us: int
    actor: Actor = SYSTEM
