"""Concurrency keys: executions of a namespace with equal keys share a limit, whatever job they belong to."""

from typing import Any

from chronos.core.config import UNLIMITED, EffectiveSettings
from chronos.core.ids import key_gate_id
from chronos.core.templates import list_template_names, render
from chronos.errors import Invalid

SCOPE = ("payload", "job", "namespace")  # what a key may name


def find_key_gate(effective: EffectiveSettings, *, namespace: str, name: str, payload: Any) -> bytes | None:
    """The gate of an execution's key; None: its job has no key. What the payload does not have is empty.

    ``payload`` is what the execution was given, or else the job's own.
    """
    if effective.key is None:
        return None
    return render_key_gate(effective.key, namespace=namespace, name=name, payload=payload)


def render_key_gate(template: str, *, namespace: str, name: str, payload: Any) -> bytes:
    """The gate of the key that a job's template makes of one execution."""
    scope = {"payload": payload, "job": {"name": name, "namespace": namespace}, "namespace": namespace}
    return key_gate_id(namespace, render(template, scope))


def key_limit(effective: EffectiveSettings) -> int:
    """How many executions of one key may be under way: one, unless the job says more."""
    return 1 if effective.limit == UNLIMITED else effective.limit


def check_key(template: str) -> None:
    """Raise ``Invalid`` for a template that could never name anything."""
    for name in list_template_names(template):
        if name[0] not in SCOPE:
            raise Invalid(f'names "{".".join(name)}"; a key may name {", ".join(SCOPE)}')
