"""Permissions, roles and principals::

route ──► permission         namespace ──► the principal's role there
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from chronos.errors import Invalid
from chronos.service.serializers.identifiers import find_name_fault

_MAX_LISTED_ROLES = 5


class Permission(IntEnum):
    """The permission that a route requires. A role includes every permission up to its own."""

    OPEN = 0  # no authentication
    VIEW = 1
    OPERATE = 2  # run, pause, cancel, replay
    ADMINISTER = 3  # create, change, delete


class Role(IntEnum):
    """The role of a principal in a namespace."""

    VIEWER = Permission.VIEW
    OPERATOR = Permission.OPERATE
    ADMIN = Permission.ADMINISTER


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """A user or token, with one role everywhere (``role``) or roles per namespace."""

    name: str
    role: Role | None = None
    by_namespace: Mapping[str, Role] = field(default_factory=dict)

    def may(self, permission: Permission, namespace: str | None = None) -> bool:
        """Return whether a permission is held in a namespace; None means in all namespaces."""
        role = self.role if namespace is None else self.by_namespace.get(namespace, self.role)
        return permission is Permission.OPEN or (role is not None and role >= permission)

    def may_somewhere(self, permission: Permission) -> bool:
        """Return whether a permission is held in at least one namespace."""
        return self.may(permission) or any(role >= permission for role in self.by_namespace.values())

    def describe_roles(self, namespace: str | None = None) -> str:
        """Describe the role in a namespace; without one, all roles."""
        if namespace is not None:
            role = self.by_namespace.get(namespace, self.role)
            return "no role" if role is None else role.name.lower()
        if self.role is not None:
            return self.role.name.lower()
        roles = [f"{role.name.lower()} in {name}" for name, role in sorted(self.by_namespace.items())]
        more = f" and {len(roles) - _MAX_LISTED_ROLES} more" if len(roles) > _MAX_LISTED_ROLES else ""
        return f"{', '.join(roles[:_MAX_LISTED_ROLES])}{more}" or "no role"

    def sees(self, namespace: str) -> bool:
        """Return whether the principal may view a namespace."""
        return self.may(Permission.VIEW, namespace)


ANONYMOUS_ADMIN = Principal(name="anonymous", role=Role.ADMIN)
NO_PRINCIPAL = Principal(name="unauthenticated")


def read_grant(name: str, entry: Mapping[str, Any]) -> Principal:
    """Read the principal of an entry ``{role, namespaces?}``.

    ``namespaces`` is a list in which the role holds, or a map with a role for each.
    """
    role = _read_role(name, entry.get("role", "viewer"))
    namespaces = entry.get("namespaces")
    if namespaces is None:
        return Principal(name=name, role=role)
    if isinstance(namespaces, Mapping):
        roles = {str(namespace): _read_role(name, one) for namespace, one in namespaces.items()}
    elif isinstance(namespaces, list | tuple):
        roles = {str(namespace): role for namespace in namespaces}
    else:
        raise Invalid(f"auth: the namespaces of {name} must be a list of names, or a map of names and roles")
    for namespace in roles:
        if fault := find_name_fault(namespace):
            raise Invalid(f'auth: the namespace "{namespace[:64]}" of {name} {fault}')
    return Principal(name=name, by_namespace=roles)


def _read_role(name: str, value: Any) -> Role:
    try:
        return Role[str(value).upper()]
    except KeyError:
        raise Invalid(f'auth: the role of {name} is "{value}", allowed: viewer, operator, admin') from None
