"""Gate profiles: the settings that a job's gate needs, as the job sets them and as they are in force.

A job stores only what it sets (``GateSettings``). Many jobs set the same, so the store keeps each combination once, as
a profile, with the values in force (``GateSpec``). A change of the server's defaults or of a namespace's settings
changes the profiles, but no job and no gate.
"""

from hashlib import blake2b

import msgspec

from chronos.core.admission_policy import GateSpec, build_gate_spec
from chronos.core.config import NOTHING_SET, Definition, Settings, resolve_settings
from chronos.core.job import JobSpec
from chronos.core.lane import list_functions, make_lane

_GATE_FIELDS = ("overlap", "priority", "concurrency", "retention", "queue", "queue_max", "placement")


class GateSettings(Definition, frozen=True, kw_only=True, tag="inherited"):
    """What a job sets of the settings that its gate needs, and the functions that it runs. The rest is inherited."""

    settings: Settings = NOTHING_SET
    functions: tuple[str, ...] = ()


Gate = GateSettings | GateSpec  # a ``GateSpec`` inherits nothing


class _StoredGate(Definition, frozen=True, kw_only=True):
    settings: Settings = NOTHING_SET
    functions: tuple[str, ...] = ()
    fixed: GateSpec | None = None


_encode = msgspec.json.Encoder(order="deterministic").encode
_decoder = msgspec.json.Decoder(_StoredGate)


def select_gate_settings(settings: Settings) -> Settings:
    """Return only the settings that a gate needs."""
    chosen = {name: value for name in _GATE_FIELDS if (value := getattr(settings, name)) is not None}
    return Settings(**chosen) if chosen else NOTHING_SET


def build_gate_settings(spec: JobSpec) -> GateSettings:
    """Return what a job sets of the settings that its gate needs."""
    return GateSettings(settings=select_gate_settings(spec.settings), functions=list_functions(spec))


def resolve_gate(gate: Gate, *upper: Settings) -> GateSpec:
    """Return the gate settings in force under the server's defaults and the namespace's settings."""
    if isinstance(gate, GateSpec):
        return gate
    effective = resolve_settings(*upper, gate.settings)
    return build_gate_spec(effective, make_lane(gate.functions, effective).text)


def write_gate(gate: Gate) -> str:
    """Return a gate as text, equal for equal gates."""
    if isinstance(gate, GateSpec):
        return _encode(_StoredGate(fixed=gate)).decode()
    return _encode(_StoredGate(settings=gate.settings, functions=gate.functions)).decode()


def read_gate(text: str) -> Gate:
    """Read the text of ``write_gate``."""
    stored = _decoder.decode(text)
    if stored.fixed is not None:
        return stored.fixed
    return GateSettings(settings=stored.settings, functions=stored.functions)


def profile_id(text: str) -> bytes:
    """Return a hash of the text of a gate, by which its profile is found."""
    return blake2b(text.encode(), digest_size=16).digest()


def longest_retention_us(gate: Gate) -> int:
    """Return how long a job may keep its history, as far as it or the built-in default says."""
    if isinstance(gate, GateSpec):
        return gate.keep_age_us
    return resolve_settings(gate.settings).keep_age_us
