"""A returned job can be sent back and means the same."""

from datetime import UTC, datetime
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from chronos.core.calendar import to_us
from chronos.core.config import (
    UNLIMITED,
    Concurrency,
    Definition,
    Delivery,
    Mode,
    OnFailure,
    Overlap,
    Placement,
    Recovery,
    RecoveryStrategy,
    Retention,
    Retry,
    Settings,
    Update,
    UpdatePolicy,
)
from chronos.core.ids import job_id
from chronos.core.job import Job, JobSpec, JobState, ScheduleSpec, Target, Task, UpstreamCondition, UpstreamJob
from chronos.service.serializers import id_text, read_job, runs_once, write_job
from tests.support.service_world import CHECKS

MAIN = Task(name="main", target=Target(kind="command", options={"argv": ["true"]}))


def texts(most: int = 20) -> st.SearchStrategy[str]:
    return st.text('aZ9é→😀 /~"\\\n{}.-', max_size=most)


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)
DURATIONS = st.integers(1, 10**15)
WHOLE = st.integers(1, 1000)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts(8), inner, max_size=3),
    max_leaves=8,
)


def drop_empty(value: Any) -> Any:
    """Return the settings without objects that set nothing."""
    return None if isinstance(value, Definition) and value == type(value)() else value


RETRY = st.builds(
    Retry,
    max_attempts=maybe(st.integers(UNLIMITED, 1000)),
    initial_us=maybe(DURATIONS),
    multiplier=maybe(st.floats(1, 100)),
    max_us=maybe(DURATIONS),
    jitter=maybe(st.floats(0, 1)),
    timeout_multiplier=maybe(st.floats(1, 1000)),
    retry_on=maybe(st.lists(texts(), max_size=3).map(tuple)),
).map(drop_empty)
OVERRIDES = st.builds(
    Settings,
    on_failure=maybe(st.sampled_from(OnFailure)),
    retry=maybe(RETRY),
    task_timeout_us=maybe(st.integers(1000, 10**15)),
    delivery=maybe(st.sampled_from(Delivery)),
)
SETTINGS = st.builds(
    Settings,
    mode=maybe(st.sampled_from([Mode.SEQUENTIAL, Mode.PARALLEL])),
    on_failure=maybe(st.sampled_from(OnFailure)),
    retry=maybe(RETRY),
    execution_timeout_us=maybe(st.integers(0, 10**15)),
    task_timeout_us=maybe(st.integers(1000, 10**15)),
    overlap=maybe(st.sampled_from(Overlap)),
    delivery=maybe(st.sampled_from(Delivery)),
    recovery=maybe(
        st.builds(
            Recovery,
            strategy=maybe(st.sampled_from(RecoveryStrategy)),
            max_count=maybe(WHOLE),
            max_age_us=maybe(DURATIONS),
            after_us=maybe(st.integers(0, 10**15)),
        ).map(drop_empty)
    ),
    priority=maybe(st.integers(1, 10)),
    update=maybe(
        st.builds(
            Update, policy=maybe(st.sampled_from(UpdatePolicy)), count=maybe(WHOLE), duration_us=maybe(DURATIONS)
        ).map(drop_empty)
    ),
    concurrency=maybe(st.builds(Concurrency, limit=maybe(st.integers(0, 100)), key=maybe(NAMES)).map(drop_empty)),
    retention=maybe(st.builds(Retention, max_count=maybe(WHOLE), max_age_us=maybe(DURATIONS)).map(drop_empty)),
    queue=maybe(NAMES),
    queue_max=maybe(WHOLE),
    placement=maybe(
        st.builds(
            Placement,
            labels=maybe(st.dictionaries(texts().filter(bool), texts(), max_size=2)),
            fallback_us=maybe(DURATIONS),
        ).map(drop_empty)
    ),
)
INSTANTS = st.integers(to_us(datetime(2020, 1, 1, tzinfo=UTC)), to_us(datetime(2040, 1, 1, tzinfo=UTC)))
SCHEDULES = st.builds(
    ScheduleSpec,
    text=st.sampled_from(
        ["0 9 * * *", "@daily", "@every 1h", "P1M", "in 24 hours", "every weekday at 9am", "H H * * *"]
    ),
    timezone=maybe(st.sampled_from(["Europe/Paris", "UTC"])),
    dst=st.sampled_from(["robust", "literal"]),
    start_us=maybe(INSTANTS),
    end_us=maybe(INSTANTS.map(lambda us: us + 10**15)),
    jitter_us=st.integers(0, 10**10),
    exclude=st.sampled_from([(), ("2027-12-25",), ("2027-12-25", "* * * * SUN")]),
)
TARGETS = st.builds(
    Target, kind=st.sampled_from(["command", "python", "wait"]), options=st.dictionaries(NAMES, JSON, max_size=3)
)
SPECS = st.builds(
    JobSpec,
    schedule=maybe(SCHEDULES),
    tasks=st.lists(
        st.builds(Task, name=NAMES, target=TARGETS, settings=OVERRIDES),
        min_size=1,
        max_size=3,
        unique_by=lambda t: t.name,
    ).map(tuple),
    settings=SETTINGS,
    description=texts(),
    after=st.lists(
        st.builds(UpstreamJob, job=NAMES, on=st.sampled_from(UpstreamCondition)), max_size=2, unique_by=lambda a: a.job
    ).map(tuple),
    on_start=maybe(TARGETS),
    on_complete=maybe(TARGETS),
    owner=maybe(texts()),
    tags=st.dictionaries(texts().filter(bool), texts(), max_size=3),
    payload=JSON,
)


def stored(spec: JobSpec, state: JobState = JobState.ACTIVE) -> Job:
    return Job(
        id=job_id("default", "a-job", 1),
        namespace="default",
        name="a-job",
        incarnation=1,
        version=3,
        state=state,
        spec=spec,
        next_us=to_us(datetime(2027, 1, 1, tzinfo=UTC)),
        created_us=1,
        updated_us=2,
        note="because",
        paused_us=7,
    )


@settings(max_examples=50)
@given(SPECS, st.sampled_from(JobState))
def test_a_returned_job_means_the_same_when_sent_back(spec: JobSpec, state: JobState) -> None:
    spec = replace(spec, after=tuple(one for one in spec.after if one.job != "a-job"))
    draft = read_job(write_job(stored(spec, state)), checks=CHECKS)
    assert draft.spec == spec
    assert (draft.namespace, draft.name) == ("default", "a-job")
    assert (draft.state is JobState.DISABLED) == (state is JobState.DISABLED)
    assert draft.runs_on_creation == (
        state is JobState.DONE and runs_once(spec)
    )  # which has no effect on an existing job


def test_a_response_adds_the_servers_fields() -> None:
    answer = write_job(stored(JobSpec(schedule=ScheduleSpec(text="@daily"), tasks=(MAIN,))), last_execution={"id": "x"})
    assert answer == {
        "id": id_text(job_id("default", "a-job", 1)),
        "name": "a-job",
        "namespace": "default",
        "version": 3,
        "state": "active",
        "enabled": True,
        "schedule": "@daily",
        "tasks": [{"name": "main", "command": {"argv": ["true"]}}],
        "next_run_at": "2027-01-01T00:00:00Z",
        "last_execution": {"id": "x"},
        "created_at": "1970-01-01T00:00:00.000001Z",
        "updated_at": "1970-01-01T00:00:00.000002Z",
        "note": "because",
        "paused_at": "1970-01-01T00:00:00.000007Z",
    }
