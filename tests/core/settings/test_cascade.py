"""The cascade: any combination of levels gives the value of the innermost level that sets it."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from chronos.core.admission_policy import build_gate_spec
from chronos.core.config import DEFAULTS, Settings, resolve_settings
from chronos.core.job import JobSpec, Target, Task
from chronos.core.lane import build_lane
from chronos.core.settings.cascade import NESTED, Level, find_origins
from chronos.core.settings.gate_profile import build_gate_settings, read_gate, resolve_gate, write_gate
from chronos.core.settings.levels import Levels
from tests.support.setting_strategies import settings

LEVELS = st.dictionaries(st.sampled_from([Level.SERVER, Level.NAMESPACE, Level.JOB, Level.TASK]), settings())


def value_of(level: Settings, name: str, field: str | None) -> Any:
    value = getattr(level, name)
    return value if field is None or value is None else getattr(value, field)


@given(LEVELS)
def test_the_innermost_level_that_sets_a_field_gives_its_value(by_level: dict[Level, Settings]) -> None:
    ordered = {level: by_level[level] for level in Level if level in by_level}
    origins, effective = find_origins(ordered), resolve_settings(*ordered.values())
    with_default = {Level.DEFAULT: DEFAULTS, **ordered}
    for name in Settings.__struct_fields__:
        fields = NESTED[name].__struct_fields__ if name in NESTED else (None,)
        for field in fields:
            setters = [level for level, one in ordered.items() if value_of(one, name, field) is not None]
            expected = setters[-1] if setters else Level.DEFAULT
            origin = origins[name]
            assert (origin.level if field is None else origin.fields[field]) is expected
            value = value_of(with_default[expected], name, field)
            assert value in [getattr(effective, one) for one in effective.__struct_fields__]


@given(settings(), settings(), settings(), st.booleans())
def test_a_gate_is_resolved_from_what_the_job_sets(
    server: Settings, namespace: Settings, own: Settings, calls: bool
) -> None:
    target = Target(kind="python", options={"name": "f"}) if calls else Target(kind="http")
    spec = JobSpec(tasks=(Task(name="main", target=target),), settings=own)
    effective = resolve_settings(server, namespace, own)
    gate = build_gate_settings(spec)
    assert resolve_gate(gate, server, namespace) == build_gate_spec(effective, build_lane(spec, effective).text)
    assert read_gate(write_gate(gate)) == gate


@given(st.integers(0, 1 << 38), st.integers(0, (1 << 24) - 1))
def test_two_numbers_are_packed_into_one(defaults: int, namespace: int) -> None:
    packed = Levels(defaults, namespace).pack()
    assert 0 <= packed < 1 << 63
    assert Levels.unpack(packed) == (defaults, namespace)
