"""Strategies of Hypothesis for settings of one level."""

from hypothesis import strategies as st

from chronos.core.config import (
    HOUR_US,
    Concurrency,
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

_US = st.none() | st.integers(1, 100).map(lambda hours: hours * HOUR_US)
_COUNT = st.none() | st.integers(1, 100)


def settings() -> st.SearchStrategy[Settings]:
    """Settings of one level; each field is set or not."""

    def maybe(strategy: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
        return st.none() | strategy

    return st.builds(
        Settings,
        mode=maybe(st.sampled_from(Mode)),
        on_failure=maybe(st.sampled_from(OnFailure)),
        retry=maybe(
            st.builds(Retry, max_attempts=_COUNT, initial_us=_US, max_us=_US, jitter=maybe(st.sampled_from([0.0, 0.5])))
        ),
        execution_timeout_us=_US,
        task_timeout_us=_US,
        overlap=maybe(st.sampled_from(Overlap)),
        delivery=maybe(st.sampled_from(Delivery)),
        recovery=maybe(
            st.builds(
                Recovery,
                strategy=maybe(st.sampled_from(RecoveryStrategy)),
                max_count=_COUNT,
                max_age_us=_US,
                after_us=_US,
            )
        ),
        priority=maybe(st.integers(1, 10)),
        update=maybe(st.builds(Update, policy=maybe(st.sampled_from(UpdatePolicy)), count=_COUNT, duration_us=_US)),
        concurrency=maybe(
            st.builds(Concurrency, limit=_COUNT, key=maybe(st.sampled_from(["{{ namespace }}", "{{ job.name }}"])))
        ),
        retention=maybe(st.builds(Retention, max_count=_COUNT, max_age_us=_US)),
        queue=maybe(st.sampled_from(["default", "slow", "fast"])),
        queue_max=_COUNT,
        placement=maybe(st.builds(Placement, labels=maybe(st.sampled_from([{}, {"region": "eu"}])), fallback_us=_US)),
    )
