"""Admission: run, queue, skip or refuse; holds during a pause; ranks."""

from itertools import product

import pytest

from chronos.core.admission_policy import AdmissionVerdict, admit, build_gate_spec, is_held, rank
from chronos.core.config import UNLIMITED, Concurrency, Overlap, Settings, resolve_settings
from chronos.core.execution import Cause

T0 = 1_800_000_000_000_000


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("key_full", [False, True])
@pytest.mark.parametrize("requested", [False, True])
@pytest.mark.parametrize("overlap", list(Overlap))
def test_admission_runs_queues_skips_or_refuses(overlap: Overlap, requested: bool, key_full: bool, held: bool) -> None:
    for limit, queue_max, active, queued in product((0, 1, 2), (0, 1, 2), (0, 1, 2), (0, 1, 2)):
        verdict = admit(
            overlap=overlap,
            limit=limit,
            queue_max=queue_max,
            active=active,
            queued=queued,
            requested=requested,
            key_full=key_full,
            held=held,
        )
        fits = limit == UNLIMITED or active < limit
        max_queued = queue_max if not held else limit + queue_max - active if limit else queued + 1
        room = queued < max_queued or (overlap is Overlap.REPLACE and queued == 0)
        if fits and not key_full and not held:
            assert verdict is AdmissionVerdict.RUN
        elif overlap is Overlap.SKIP and not requested and (queued > 0 or not fits):
            assert verdict is AdmissionVerdict.SKIP_OVERLAP
        elif room:
            assert verdict is AdmissionVerdict.QUEUE
        else:
            assert verdict is (AdmissionVerdict.REFUSE if requested else AdmissionVerdict.SKIP_FULL)


def test_a_pause_holds_automatic_and_earlier_executions() -> None:
    requested = {Cause.MANUAL, Cause.REPLAY, Cause.BACKFILL}
    for cause in Cause:
        assert is_held(cause, admitted_before_pause=False) is (cause not in requested)
        assert is_held(cause, admitted_before_pause=True) is (cause is not Cause.MANUAL)


def test_a_limit_applies_only_under_allow() -> None:
    limited = Settings(concurrency=Concurrency(limit=4, key="{{ payload.tenant }}"))
    allowed = build_gate_spec(resolve_settings(limited, Settings(overlap=Overlap.ALLOW)), "lane")
    assert (allowed.limit, allowed.keyed, allowed.lane) == (UNLIMITED, True, "lane"), "the limit applies per key"
    assert build_gate_spec(resolve_settings(limited), "lane").limit == 1


def test_a_step_of_priority_equals_a_minute_of_waiting() -> None:
    assert rank(T0, 6) == rank(T0 - 60_000_000, 5)
