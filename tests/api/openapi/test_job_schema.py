"""The schema of a job matches the serializers: the same fields, values and bounds, and never stricter."""

from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from chronos.api.openapi.schemas import SCHEMAS
from chronos.core.job import JobSpec
from chronos.runners.http.options import METHODS
from chronos.service.serializers import InvalidJob, read_job, write_job
from tests.service.serializers import test_job as test_shapes
from tests.service.serializers import test_round_trip as test_shapes_back
from tests.service.serializers.test_fuzz import FIELDS, VALUES
from tests.support.accepted_fields import CHECKS, ITEM, Field, Path, job, objects, problems
from tests.support.service_world import CHECKS as LAX
from tests.support.service_world import shape

VALID = jsonschema_rs.Draft202012Validator(
    {"$ref": "#/components/schemas/JobInput", "components": {"schemas": SCHEMAS}}
)
Schema = dict[str, Any]


def parts(schema: Any) -> Iterator[Schema]:
    """Yield a schema and all schemas that it is composed of."""
    if "$ref" in schema:
        yield from parts(SCHEMAS[schema["$ref"].rpartition("/")[2]])
    for inner in (*schema.get("allOf", ()), *schema.get("anyOf", ())):
        yield from parts(inner)
    yield schema


def properties(schema: Any) -> dict[str, Schema]:
    return {name: inner for part in parts(schema) for name, inner in part.get("properties", {}).items()}


def at(path: Path) -> Any:
    """Return the schema of a place in a job."""
    schema: Any = SCHEMAS["JobInput"]
    for step in path:
        if step == ITEM:
            schema = {"anyOf": [part["items"] for part in parts(schema) if "items" in part]}
        else:
            schema = properties(schema)[step]
    return schema


def described(path: Path = ()) -> Iterator[Path]:
    """Yield every object of the schema that has properties."""
    schema = at(path)
    if properties(schema):
        yield path
    for name in properties(schema):
        yield from described((*path, name))
    if any("items" in part for part in parts(schema)):
        yield from described((*path, ITEM))


def shown(path: Path) -> str:
    return ".".join(path) or "job"


# --- the same fields


@pytest.mark.parametrize("path", objects(), ids=shown)
def test_each_schema_has_the_accepted_fields(path: Path) -> None:
    assert set(properties(at(path))) == set(objects()[path])


def test_every_schema_with_fields_rejects_others() -> None:
    assert set(described()) == set(objects())


EACH = [(path, name, field) for path, fields in objects().items() for name, field in fields.items()]


@pytest.mark.parametrize(("path", "name", "field"), [each for each in EACH if each[2].words])
def test_enums_list_the_accepted_values(path: Path, name: str, field: Field) -> None:
    if name == "schedule_type":
        return  # in any case
    words = {word for part in parts(properties(at(path))[name]) for word in part.get("enum", ())}
    assert words - {None} == set(field.words)


@pytest.mark.parametrize(("path", "name", "field"), [each for each in EACH if each[2].bounds])
def test_bounds_are_those_of_the_server(path: Path, name: str, field: Field) -> None:
    schema = properties(at(path))[name]
    low, high = field.bounds or ("", "")
    assert schema["maximum"] == float(high)
    assert schema["minimum"] == (16 if name == "files" else float(low))


def test_every_field_has_a_description() -> None:
    silent = [
        f"{shown(path)}.{name}"
        for path in objects()
        for name, schema in properties(at(path)).items()
        if "description" not in schema and name != "type"
    ]
    assert not silent
    assert all(method in str(SCHEMAS["HttpTarget"]["properties"]["method"]) for method in METHODS)


def test_examples_match_their_schemas() -> None:
    known = {"components": {"schemas": SCHEMAS}}
    for path, name, _ in EACH:
        schema = properties(at(path))[name]
        for example in schema.get("examples", ()):
            jsonschema_rs.validate({"allOf": [schema], **known}, example)
            if name not in ("needs", "schedule_type"):  # these depend on the rest of the job
                assert not problems(job(path, name, example)), (path, name, example)
    for schema in SCHEMAS.values():
        for example in schema.get("examples", ()):
            jsonschema_rs.validate({"allOf": [schema], **known}, example)


# --- never stricter

POOL: list[Any] = [
    *(None, True, False, 0, 1, 5, 10, 16, 255, 1000, -1, 0.5, 1.5, 2.0, 60, 1 << 30),
    *("", "a", "A-b_c.d", "é", "x" * 200, "y" * 256, "UTC", "Europe/Paris", "main", "{{ payload.a }}", "whsec_!"),
    *("now", "manual", "@daily", "0 9 * * 1-5", "every day at noon", "P1D", "R5/PT6H", "2027-01-01T09:00:00Z"),
    *("1h", "0s", "0", "1.5s", "PT5M", "1w2d", "250ms", "30", "2027-12-25", "https://a.example/", "/tmp"),
    *("POST", "get", "2xx", "512MiB", "1048576", 1 << 20, "ONE_TIME", "Recurring", "IMMEDIATE", "header", "basic"),
    *([], ["a"], ["a", "b"], [1], [7, None], [200, "4xx", "500-504"], [0, 2], ["2027-12-25", "* * * * SUN"], [{}]),
    *({}, {"a": "b"}, {"a": 1}, {"a": None}, {"": ""}, [{"a": 1}], {"cron": "@daily"}, {"every": "1h", "start": None}),
    *({"url": "https://a.example", "method": None}, {"argv": ["true", 1]}, {"shell": True, "command": "true"}),
    *({"name": "f", "payload": None}, {"name": "f", "limits": None}, {"for": 5}, {"signal": "go", "timeout": 1.5}),
    *({"http": {"url": "https://a.example"}}, {"command": {"argv": ["true"]}, "http": None}, [{"wait": {"for": "1s"}}]),
    *([{"name": None, "python": {"name": "f"}, "needs": None}], [{"job": "b", "on": None}], ["b", {"job": "c"}]),
    *({"type": "bearer", "token": "t"}, {"type": "basic", "username": 5}, {"type": "hmac", "secret": 5}),
    *({"type": "api_key", "value": "v", "name": 5}, {"memory": "1MiB", "cpu_s": 1}, {"memory": None, "cpu_s": 0.5}),
    *({"max_attempts": None, "retry_on": "timeout"}, {"limit": 0}, {"labels": {"a": ""}}, {"strategy": None}),
]
#: Accepted by other servers: with such a runner, or running as root.
ELSEWHERE = {"grpc", "user"}
AGAIN = {"webhook", "retry_policy", "on_complete", "cron_expression", "execute_at"}  # aliases


def values(field: Field) -> list[Any]:
    return [*POOL, *field.words, *(word.upper() for word in field.words)]


@pytest.mark.parametrize("path", [path for path in objects() if AGAIN.isdisjoint(path)], ids=shown)
def test_accepted_values_are_valid(path: Path) -> None:
    """Every field with every kind of value that the server accepts."""
    for name, field in objects()[path].items():
        jobs = [(value, job(path, name, value)) for value in values(field)]
        accepted = [(value, data) for value, data in jobs if not problems(data)]
        assert [data for _, data in accepted if not VALID.is_valid(data)] == []
        tried = any(value is not None for value, _ in accepted)
        assert tried or name in ELSEWHERE, f"nothing was tried that {shown(path)}.{name} takes"


def cases(test: Any) -> list[Any]:
    """Return the table of a parametrized test."""
    [table] = [mark for mark in test.pytestmark if mark.name == "parametrize"]
    return [case[0] for case in table.args[1]]


TABLED = [
    *(shape(**fields) for fields in cases(test_shapes.test_settings)),
    *(shape(schedule=schedule) for schedule in cases(test_shapes.test_schedules)),
    *(shape(**fields) for fields in cases(test_shapes.test_jobs_that_run_immediately)),
]


@pytest.mark.parametrize("data", TABLED)
def test_accepted_jobs_of_other_tests_are_valid(data: dict[str, Any]) -> None:
    read_job(data, checks=LAX)
    VALID.validate(data)


@given(test_shapes_back.SPECS)
def test_a_returned_job_is_valid_input(spec: JobSpec) -> None:
    target = test_shapes_back.MAIN.target  # the others have options that runners reject
    tasks = tuple(replace(task, target=target) for task in spec.tasks)
    spec = replace(spec, tasks=tasks, on_start=spec.on_start and target, on_complete=spec.on_complete and target)
    VALID.validate(write_job(test_shapes_back.stored(spec)))


@given(st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=3))
def test_generated_jobs_that_are_accepted_are_valid(fields: dict[str, Any]) -> None:
    data = shape(**fields)
    try:
        read_job(data, checks=CHECKS)
    except InvalidJob:
        return
    VALID.validate(data)


def test_a_target_of_a_package_is_valid() -> None:
    data = {"name": "news", "tasks": [{"name": "a", "pigeon": {"loft": "attic"}}], "on_start": {"pigeon": {}}}
    read_job(data, checks={**CHECKS, "pigeon": lambda _: None})
    VALID.validate(data)


@pytest.mark.parametrize(
    "fields",
    [
        *({"retry": 3}, {"retry": {"max_attempt": 3}}, {"retry": {"max_attempts": 0}}, {"overlap": "sometimes"}),
        *({"priority": 11}, {"queue": {}}, {"schedle": "@daily"}, {"schedule": {"crn": "@daily"}}, {"timeout": 30}),
        *({"tasks": [{"name": "a", "overlap": "skip"}]}, {"http": {"urll": "https://a.example"}}, {"after": [{}]}),
        *({"name": "a b"}, {"name": None}, {"wait": {}}, {"recovery": "never"}, {"update": {"count": 0}}),
    ],
)
def test_typos_are_found_by_the_schema(fields: dict[str, Any]) -> None:
    data = shape(**fields)
    assert problems(data)
    assert not VALID.is_valid(data)
