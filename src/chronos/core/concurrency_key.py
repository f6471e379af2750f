"""Concurrency keys: executions of a namespace with equal keys share a limit, even across jobs."""

from typing import Any

from chronos.core.config import UNLIMITED, EffectiveSettings
from chronos.core.ids import key_gate_id
from chronos.core.templates import list_template_names, render
from chronos.errors import Invalid

SCOPE = ("payload", "job", "namespace")  # names that a key template may use


def find_key_gate(effective: EffectiveSettings, *, namespace: str, name: str, payload: Any) -> bytes | None:
    """Return the gate of an execution's key; None if its job has no key. Names missing in the payload render empty.

    ``payload`` is that of the execution, or else of its job.
    """
    if effective.key is None:
        return None
    return render_key_gate(effective.key, namespace=namespace, name=name, payload=payload)


def render_key_gate(template: str, *, namespace: str, name: str, payload: Any) -> bytes:
    """Return the gate of the key that a template renders to for one execution."""
    scope = {"payload": payload, "job": {"name": name, "namespace": namespace}, "namespace": namespace}
    return key_gate_id(namespace, render(template, scope))


def key_limit(effective: EffectiveSettings) -> int:
    """Return how many executions with one key may be in progress: one, unless the job sets a limit."""
    return 1 if effective.limit == UNLIMITED else effective.limit


def check_key(template: str) -> None:
    """Raise ``Invalid`` for a template with a name that a key cannot use."""
    for name in list_template_names(template):
        if name[0] not in SCOPE:
            raise Invalid(f'uses unknown name "{".".join(name)}"; a key may use {", ".join(SCOPE)}')
