"""What a job is called for people: events carry ids only, which nobody can read."""

from collections.abc import Callable

from chronos.core.job import DEFAULT_NAMESPACE

#: Namespace and name of a job, where this process knows them.
NameOf = Callable[[bytes], tuple[str, str] | None]


def shown(named: tuple[str, str]) -> str:
    """One text: the name, after its namespace where that is not the usual one."""
    namespace, name = named
    return name if namespace == DEFAULT_NAMESPACE else f"{namespace}/{name}"
