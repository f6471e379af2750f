"""Decides what saving a job writes: nothing, a state change or a new version, with its gate and next instant. Pure.

::

    draft ─┬─ new ──────────────► activation: anchor and first instant
           └─ existing ─┬─ same definition ───► nothing to write, or only enable or disable
                        ├─ same schedule ─────► a new version; next instant and anchor kept
                        └─ new schedule ──────► takeover: immediate, graceful, windowed
"""

from dataclasses import dataclass

from msgspec import Struct
from msgspec.structs import replace

from chronos.core.calendar import DAY_S, SECOND_US, rfc3339
from chronos.core.concurrency_key import find_key_gate, key_limit
from chronos.core.config import EffectiveSettings, Settings, resolve_settings
from chronos.core.job import Job, JobSpec, JobState, OutgoingSchedule, ScheduleSpec, Unreadable
from chronos.core.lane import list_functions
from chronos.core.planner import Activation, activate_schedule
from chronos.core.schedule.cron import CronRule
from chronos.core.schedule.durations import format_duration
from chronos.core.schedule.once import DelayRule, OnceRule
from chronos.core.schedule.schedule import Schedule
from chronos.core.schedule_change import (
    MAX_COMPARED,
    ScheduleDiff,
    diff,
    drop_passed_schedules,
    parse_stored,
    plan_takeover,
    resolve_instants,
    start_at_cursor,
)
from chronos.core.settings.gate_profile import GateSettings, build_gate_settings
from chronos.service.masked_credentials import restore_masked
from chronos.service.serializers import Draft, InvalidJob, Problem, is_done_after_one_run, runs_once
from chronos.store.commands import NEW, JobRow, RunOnSave

DIFF_WINDOW_US = 30 * DAY_S * SECOND_US  # the window of a diff of upcoming runs
_MAX_SHARED = 4_096  # entries per cache
_MAX_OUTGOING = 8  # replaced schedules of one job that are still in force


class SavePlan(Struct, frozen=True, kw_only=True, gc=False):
    """How a draft is saved. Without anything to write, it has no ``row``."""

    draft: Draft
    existing: Job | None
    row: JobRow | None
    state: JobState
    next_us: int | None
    diff: ScheduleDiff | None = None
    is_state_change: bool = False  # only the state changes, not the definition


class _PlannedSpec(Struct, frozen=True, kw_only=True):
    """The spec to store, with its next instant."""

    spec: JobSpec
    next_us: int | None
    diff: ScheduleDiff | None = None


@dataclass(slots=True)
class _ScheduleStart:
    """The cached start of a schedule, and the time it was computed for."""

    schedule: Schedule
    late_us: int
    computed_us: int
    activation: Activation


class PlanCache:
    """Caches what many jobs share: effective settings, gates and schedule starts.

    ``upper`` are the settings above the jobs. The caches are keyed by identity, so they hold references to the keys.
    Their size is bounded.
    """

    def __init__(self, upper: Settings) -> None:
        self._upper = upper
        self._effective: dict[int, tuple[Settings, EffectiveSettings]] = {}
        self._gates: dict[tuple[int, tuple[str, ...]], GateSettings] = {}
        self._starts: dict[int, _ScheduleStart] = {}

    def effective(self, settings: Settings) -> EffectiveSettings:
        """Return the effective settings of a job."""
        cached = self._effective.get(id(settings))
        if cached is None:
            if len(self._effective) >= _MAX_SHARED:
                self._effective.clear()
                self._gates.clear()
            cached = self._effective[id(settings)] = settings, resolve_settings(self._upper, settings)
        return cached[1]

    def gate(self, spec: JobSpec, effective: EffectiveSettings) -> GateSettings:
        """Return what a job sets of its gate. ``effective`` must come from this cache."""
        functions = list_functions(spec)
        cached = self._gates.get((id(effective), functions))
        if cached is None:
            if len(self._gates) >= _MAX_SHARED:
                self._gates.clear()
            cached = self._gates[id(effective), functions] = build_gate_settings(spec)
        return cached

    def start(self, schedule: Schedule, late_us: int, now_us: int) -> Activation:
        """Return the activation of a new job's schedule. A cron schedule keeps it until its first instant."""
        cached = self._starts.get(id(schedule))
        if cached is not None and cached.late_us == late_us and cached.computed_us <= now_us:
            next_us = cached.activation.next_us
            if now_us == cached.computed_us or (
                next_us is not None and now_us < next_us and isinstance(schedule.rule, CronRule)
            ):
                return cached.activation
        activation = activate_schedule(schedule, now_us, late_us=late_us)
        if len(self._starts) >= _MAX_SHARED:
            self._starts.clear()
        self._starts[id(schedule)] = _ScheduleStart(schedule, late_us, now_us, activation)
        return activation


def plan_save(
    draft: Draft,
    existing: Job | None,
    *,
    cache: PlanCache,
    now_us: int,
    max_compared: int = MAX_COMPARED,
) -> SavePlan:
    """Decide what to write so that the store matches the draft. Raises ``InvalidJob``.

    ``max_compared`` bounds the upcoming runs that a diff compares.
    """
    if existing is None:
        return plan_new_job(draft, cache=cache, now_us=now_us)
    if draft.target_pointers is not None:
        draft = restore_masked(draft, existing)
    if draft.end_after_us is not None:
        draft = _resolve_end(draft, existing, now_us)
    effective = cache.effective(draft.spec.settings)
    is_same_schedule = not isinstance(existing.spec, Unreadable) and _same_schedule(draft, existing, now_us)
    planned = (
        _keep_schedule(draft, existing, now_us)
        if is_same_schedule
        else _take_over_schedule(draft, existing, effective, now_us, max_compared)
    )
    if planned.spec == existing.spec or (
        is_same_schedule and replace(planned.spec, outgoing=existing.spec.outgoing) == existing.spec
    ):
        requested = (
            JobState.ACTIVE if _becomes_manual(draft, existing) else _to_requested_state(draft.state, existing.state)
        )
        if is_done_after_one_run(existing) and not draft.manual:
            requested = None  # nothing to disable; enabled again, retention would never remove it
        if requested is not None:
            return _plan_state_change(
                draft, existing, requested, cache.gate(existing.spec, effective), now_us, max_compared
            )
        return SavePlan(draft=draft, existing=existing, row=None, state=existing.state, next_us=existing.next_us)
    state = _next_state(draft, existing, planned, is_same_schedule=is_same_schedule)
    return _to_save_plan(draft, existing, planned, state, cache.gate(planned.spec, effective), effective)


def restart_us(spec: JobSpec, name: str, now_us: int) -> int | None:
    """Return the first instant of a job that is enabled. Its anchor and any outgoing schedule are kept."""
    if spec.schedule is not None and (spec.outgoing is None or spec.outgoing.until_us <= now_us):
        return activate_schedule(parse_stored(spec.schedule, name), now_us).next_us
    instants = resolve_instants(spec, name)
    return None if instants is None else instants.next_us(now_us)


def plan_new_job(draft: Draft, *, cache: PlanCache, now_us: int) -> SavePlan:
    """Decide what to write for a draft whose job does not exist yet. Raises ``InvalidJob``."""
    if draft.target_pointers is not None:
        draft = restore_masked(draft, None)
    if draft.end_after_us is not None:
        draft = _resolve_end(draft, None, now_us)
    effective = cache.effective(draft.spec.settings)
    planned = _start_schedule(draft, effective, cache, now_us)
    state = _to_final_state(draft.state or JobState.ACTIVE, planned)
    return _to_save_plan(draft, None, planned, state, cache.gate(planned.spec, effective), effective)


def _to_save_plan(
    draft: Draft,
    existing: Job | None,
    planned: _PlannedSpec,
    state: JobState,
    gate: GateSettings,
    effective: EffectiveSettings,
) -> SavePlan:
    next_us = None if state is JobState.DISABLED else planned.next_us
    run = _to_run_on_save(draft, existing, state, effective)
    if run is not None and state is JobState.ACTIVE and runs_once(planned.spec):
        state = JobState.DONE  # like a one-time job whose instant is admitted
    row = JobRow(
        namespace=draft.namespace,
        name=draft.name,
        spec=planned.spec,
        gate=gate,
        next_us=next_us,
        state=state,
        expect=NEW if existing is None else existing.version,
        expect_state=None if existing is None else existing.state,
        run=run,
    )
    return SavePlan(draft=draft, existing=existing, row=row, state=state, next_us=next_us, diff=planned.diff)


def _plan_state_change(
    draft: Draft, existing: Job, requested: JobState, gate: GateSettings, now_us: int, max_compared: int
) -> SavePlan:
    """Plan to enable (from now) or disable a job whose definition is unchanged."""
    is_on = requested is JobState.ACTIVE
    next_us = restart_us(existing.spec, existing.name, now_us) if is_on else None
    state = _to_final_state(requested, _PlannedSpec(spec=existing.spec, next_us=next_us))
    row = JobRow(
        namespace=existing.namespace,
        name=existing.name,
        spec=existing.spec,
        gate=gate,
        next_us=next_us,
        state=state,
        expect=existing.version,
        expect_state=existing.state,
    )
    instants = resolve_instants(existing.spec, existing.name)
    old = start_at_cursor(instants, existing.next_us) if existing.state is JobState.ACTIVE else None
    new = start_at_cursor(instants, next_us) if state is JobState.ACTIVE else None
    changes = None if instants is None else diff(old, new, now_us, now_us + DIFF_WINDOW_US, compared=max_compared)
    return SavePlan(
        draft=draft, existing=existing, row=row, state=state, next_us=next_us, diff=changes, is_state_change=True
    )


def _to_run_on_save(
    draft: Draft, existing: Job | None, state: JobState, effective: EffectiveSettings
) -> RunOnSave | None:
    """Return the run that saving starts. Immediate jobs run when created; "now" runs on every change.

    Either way the job is then done, because it has no further instant.
    """
    requested = draft.runs_on_every_change or (draft.runs_on_creation and existing is None)
    if not requested or state is JobState.DISABLED:
        return None
    key = find_key_gate(effective, namespace=draft.namespace, name=draft.name, payload=draft.spec.payload)
    return RunOnSave(key, 0 if key is None else key_limit(effective))


# --- schedule


def _resolve_end(draft: Draft, existing: Job | None, now_us: int) -> Draft:
    """Return the draft with the end that a duration means. It counts from the start, or else from now.

    A start that is not given is stored too, so that a later save of the same draft finds the same window and keeps it.
    """
    schedule, duration_us = draft.spec.schedule, draft.end_after_us
    if schedule is None or duration_us is None:
        return draft
    old = None if existing is None or isinstance(existing.spec, Unreadable) else existing.spec.schedule
    start_us = schedule.start_us
    if start_us is None and old is not None and old.start_us is not None:
        is_same_window = old.end_us == old.start_us + duration_us
        if is_same_window and replace(old, start_us=None, end_us=None) == schedule:
            return replace(draft, spec=replace(draft.spec, schedule=old), parsed=None)
    if start_us is None and draft.schedule is not None and draft.schedule.anchored:
        start_us = now_us
    end_us = (now_us if start_us is None else start_us) + duration_us
    resolved = replace(schedule, start_us=start_us, end_us=end_us)
    return replace(draft, spec=replace(draft.spec, schedule=resolved), parsed=None)


def _start_schedule(draft: Draft, effective: EffectiveSettings, cache: PlanCache, now_us: int) -> _PlannedSpec:
    schedule = draft.schedule
    if schedule is None:
        return _PlannedSpec(spec=draft.spec, next_us=None)
    start = cache.start(schedule, effective.recovery_after_us, now_us)
    _reject_past_instant(draft, schedule, start.next_us, effective, now_us)
    spec = draft.spec if start.schedule is schedule else _with_anchor(draft, schedule, start.schedule)
    return _PlannedSpec(spec=spec, next_us=start.next_us)


def _keep_schedule(draft: Draft, existing: Job, now_us: int) -> _PlannedSpec:
    """Plan a new version with the same schedule: its anchor, its next instant, and outgoing schedules are kept."""
    next_us = existing.next_us
    if _to_requested_state(draft.state, existing.state) is JobState.ACTIVE:
        next_us = restart_us(existing.spec, existing.name, now_us)
    outgoing = drop_passed_schedules(existing.spec.outgoing, next_us)
    return _PlannedSpec(spec=replace(draft.spec, schedule=existing.spec.schedule, outgoing=outgoing), next_us=next_us)


def _take_over_schedule(
    draft: Draft, existing: Job, effective: EffectiveSettings, now_us: int, max_compared: int
) -> _PlannedSpec:
    is_readable = not isinstance(existing.spec, Unreadable)
    is_live = is_readable and existing.state in (JobState.ACTIVE, JobState.PAUSED)
    old = start_at_cursor(resolve_instants(existing.spec, existing.name), existing.next_us) if is_live else None
    new = draft.schedule
    takeover_ = plan_takeover(
        effective.update if draft.update_policy is None else draft.update_policy,
        old=old,
        new=new,
        next_us=existing.next_us if is_live else None,
        now_us=now_us,
        count=effective.update_count,
        duration_us=effective.update_duration_us,
    )
    next_us = takeover_.next_us
    if new is not None and next_us is None:  # an instant that has just passed still runs
        next_us = activate_schedule(new, now_us, late_us=effective.recovery_after_us).next_us
        _reject_past_instant(draft, new, next_us, effective, now_us)
    spec = draft.spec if takeover_.schedule is None or new is None else _with_anchor(draft, new, takeover_.schedule)
    if takeover_.needs_old and existing.spec.schedule is not None and takeover_.until_us is not None:
        first_us = None if takeover_.instants is None else takeover_.instants.next_us(takeover_.until_us)
        spec = replace(spec, outgoing=_to_outgoing(existing, existing.spec.schedule, takeover_.until_us, first_us))
    before = old if existing.state is JobState.ACTIVE else None
    after = start_at_cursor(takeover_.instants, next_us)
    changes = diff(before, after, now_us, now_us + DIFF_WINDOW_US, compared=max_compared)
    return _PlannedSpec(spec=spec, next_us=next_us, diff=changes)


def _to_outgoing(existing: Job, schedule: ScheduleSpec, until_us: int, first_us: int | None) -> OutgoingSchedule:
    """Return the replaced schedule, chained to older ones that are still in force."""
    before = drop_passed_schedules(existing.spec.outgoing, existing.next_us)
    depth, outgoing = 0, before
    while outgoing is not None:
        depth, outgoing = depth + 1, outgoing.before
    if depth >= _MAX_OUTGOING:
        reason = (
            f"was changed {depth} times while older schedules were still in force; wait, or use the immediate policy"
        )
        raise InvalidJob([Problem("/update", reason)], name=existing.name)
    return OutgoingSchedule(schedule=schedule, until_us=until_us, first_us=first_us, before=before)


def _with_anchor(draft: Draft, written_schedule: Schedule, schedule: Schedule) -> JobSpec:
    """Return the spec with the anchor of its activated schedule. ``written_schedule`` is the schedule as sent."""
    spec, stored_schedule = draft.spec, draft.spec.schedule
    if (
        stored_schedule is None
        or stored_schedule.start_us is not None
        or schedule.anchored is written_schedule.anchored
    ):
        return spec
    anchor_us, end_us = schedule.anchor_us, stored_schedule.end_us
    if draft.end_after_us is not None and anchor_us is not None:
        end_us = anchor_us + draft.end_after_us
    return replace(spec, schedule=replace(stored_schedule, start_us=anchor_us, end_us=end_us))


def _same_schedule(draft: Draft, existing: Job, now_us: int) -> bool:
    """Return whether the draft keeps the schedule. An anchor that the server chose does not count as a difference."""
    new, old = draft.spec.schedule, existing.spec.schedule
    if new == old:
        return True
    if new is None or old is None or old.start_us is None or replace(old, start_us=None) != new:
        return False
    is_server_anchor = old.start_us <= now_us or existing.spec.outgoing is not None
    return is_server_anchor and draft.schedule is not None and not draft.schedule.anchored


def _reject_past_instant(
    draft: Draft, schedule: Schedule, next_us: int | None, effective: EffectiveSettings, now_us: int
) -> None:
    """Reject a one-time job whose instant has passed: it would never run."""
    rules = [member.rule for member in schedule.members]
    if next_us is not None or not all(isinstance(rule, OnceRule | DelayRule) for rule in rules):
        return
    at_us = max((rule.at_us for rule in rules if isinstance(rule, OnceRule)), default=None)
    at = "" if at_us is None else f"{rfc3339(at_us)} "
    limit = format_duration(effective.recovery_after_us, exact=True)
    reason = f"{at}is in the past by more than {limit} (recovery.after); it is now {rfc3339(now_us)}"
    raise InvalidJob([Problem(draft.schedule_pointer, reason)], name=draft.name)


# --- states


def _to_final_state(requested: JobState, planned: _PlannedSpec) -> JobState:
    ended = planned.spec.schedule is not None and planned.next_us is None
    return JobState.DONE if ended and requested is JobState.ACTIVE else requested


def _next_state(draft: Draft, existing: Job, planned: _PlannedSpec, *, is_same_schedule: bool) -> JobState:
    """Return the state after a save. Enabling does not resume a paused job; a new schedule reactivates a done one."""
    requested = _to_requested_state(draft.state, existing.state)
    state = existing.state if requested is None else requested
    if state is JobState.DONE and (not is_same_schedule or _becomes_manual(draft, existing)):
        return _to_final_state(JobState.ACTIVE, planned)
    return state if is_same_schedule and state is JobState.DONE else _to_final_state(state, planned)


def _becomes_manual(draft: Draft, existing: Job) -> bool:
    """Return whether a job that ran once becomes one that runs when triggered."""
    return draft.manual and is_done_after_one_run(existing) and draft.state is not JobState.DISABLED


def _to_requested_state(requested: JobState | None, current: JobState) -> JobState | None:
    """Return the state that the draft requests, or None to keep the current one."""
    if requested is JobState.DISABLED and current is not JobState.DISABLED:
        return JobState.DISABLED
    return JobState.ACTIVE if requested is JobState.ACTIVE and current is JobState.DISABLED else None
