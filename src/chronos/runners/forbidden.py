"""A target that this node does not allow: jobs with it are refused, and what others saved fails at once."""

from collections.abc import Mapping
from typing import Any

from chronos.core.outcome import Failed, Outcome
from chronos.errors import Invalid
from chronos.runners.contract import AttemptCall


class ForbiddenRunner:
    """Stands in for the runner of a kind that the configuration leaves out."""

    def __init__(self, kind: str, allowed: tuple[str, ...]) -> None:
        self._reason = (
            f'"{kind}" targets are not allowed here; dispatcher.targets allows {", ".join(allowed)}: '
            "use one of these, or ask the operator of the server"
        )

    def check(self, options: Mapping[str, Any]) -> None:
        raise Invalid(self._reason)

    async def run(self, call: AttemptCall) -> Outcome:
        return Failed(error=self._reason, kinds=("target",), worth_retrying=False)

    async def close(self) -> None:
        """Nothing is kept."""
