"""ForbiddenRunner: rejects jobs with a kind of target that this node does not allow."""

from collections.abc import Mapping
from typing import Any

from chronos.core.outcome import Failed, Outcome
from chronos.errors import Invalid
from chronos.runners.contract import AttemptCall


class ForbiddenRunner:
    """The runner of a kind that the configuration excludes. Stored jobs with it fail at once."""

    def __init__(self, kind: str, allowed: tuple[str, ...]) -> None:
        self._reason = (
            f'"{kind}" targets are not allowed on this server; use one of {", ".join(allowed)}, '
            "or ask the operator to add it to dispatcher.targets"
        )

    def check(self, options: Mapping[str, Any]) -> None:
        raise Invalid(self._reason)

    async def run(self, call: AttemptCall) -> Outcome:
        return Failed(error=self._reason, kinds=("target",), worth_retrying=False)

    async def close(self) -> None:
        """No-op: there is nothing to release."""
