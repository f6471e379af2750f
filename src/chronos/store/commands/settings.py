"""Commands for the levels of the settings cascade: the server's defaults and the profiles of gates."""

from dataclasses import dataclass

from chronos.core.config import Settings
from chronos.core.node import Actor
from chronos.store.commands.base import SYSTEM, Command


@dataclass(frozen=True, slots=True, kw_only=True)
class SetDefaults(Command[int]):
    """Make these settings the server's defaults, as a new numbered version if they differ from the current ones.

    - Atomic: they are in force for every admission after the commit. No job and no gate is written.
    - Returned: the number of the version in force.
    """

    settings: Settings
    now_us: int
    actor: Actor = SYSTEM


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileGates(Command[int]):
    """Give gates without a current profile theirs: gates that an earlier release has written.

    - Bounded: ``limit`` gates, by job. Gates that another transaction has locked are left to the next call.
    - Returned: how many gates got a profile.
    """

    limit: int
