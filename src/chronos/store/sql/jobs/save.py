"""Steps for SaveJobs and DeleteJob. The same on every engine."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from chronos.core.admission_policy import PRIORITY_STEP_US
from chronos.core.config import Overlap
from chronos.core.execution import CancelRequest, Cause, Status
from chronos.core.ids import requested_execution_id
from chronos.core.job import JobState, Unreadable
from chronos.core.node import Actor
from chronos.core.reasons import ReasonCode
from chronos.core.settings.gate_profile import profile_id, write_gate
from chronos.errors import Conflict, Invalid, QueueFull
from chronos.store.commands import NEW, DeleteJob, JobRow, RunOnSave, RunRow, Saved, SaveJobs
from chronos.store.sql import row_mappers as record
from chronos.store.sql.append_only import AppendOnlyTables
from chronos.store.sql.executions.admission import AdmissionHandler
from chronos.store.sql.executions.concurrency_keys import ConcurrencyKeys
from chronos.store.sql.executions.gate_queue import GateQueue
from chronos.store.sql.executions.gates import Gate, LostRace, to_id_rows
from chronos.store.sql.jobs.delete import JobDeletes, JobTags
from chronos.store.sql.jobs.dependencies import OWN_OUTCOME, JobDependencies, NamespacedName
from chronos.store.sql.jobs.insert import (
    GATE_COLUMNS,
    GATE_NAMES,
    GATE_TYPES,
    EncodedJob,
    JobInserts,
    ProfilesByGate,
    audit_lines_about_jobs,
    classify_rows,
    encode_specs,
    gate_rows,
)
from chronos.store.sql.jobs.lookup import JobLookup
from chronos.store.sql.jobs.state import JobStateHandler, check_state
from chronos.store.sql.query import Dialect, Query, Row, Rows, Steps
from chronos.store.sql.settings.profiles import Profile, ProfileKey, ProfileRows

_LINK_FIELDS = ('"after":', '"on_complete":')  # occur in the JSON of every job with dependencies


class SaveJobsHandler:
    """Creates, changes and deletes jobs."""

    def __init__(self, d: Dialect, gates: GateQueue, records: AppendOnlyTables, job_states: JobStateHandler) -> None:
        self._gates, self._records, self._dependencies, self._job_states = (
            gates,
            records,
            JobDependencies(d),
            job_states,
        )
        self._job_lookup, self._job_inserts, self._admission = (
            JobLookup(d),
            JobInserts(d, records),
            AdmissionHandler(d, gates),
        )
        self._job_deletes, self._job_tags = JobDeletes(d, records), JobTags(d)
        self._concurrency_keys = ConcurrencyKeys(d, gates)
        self._profiles = ProfileRows(d)
        self._replace = f"""
            update job as j set version = i.version, spec = i.spec, owner = i.owner, author = i.author,
                saved_us = i.now_us, updated_us = i.now_us,
                paused_us = case i.stays when 1 then j.paused_us else i.paused_us end,
                note = case i.stays when 1 then j.note else '' end
            from {d.rows(1, "id:i version:n spec:t owner:t author:t now_us:n stays:n paused_us:n")} as i
            where {d.within("j.id", 1)} and {d.is_job("j", "i.id")}"""
        settings = [name for name in GATE_NAMES if name not in ("job", "next_us", "state")]
        self._set_gates = f"""
            update gate as g set {", ".join(f"{name} = i.{name}" for name in settings)}
            from {d.rows(1, GATE_COLUMNS)} as i where {d.within("g.job", 1)} and g.job = i.job"""
        self._reconfigure = f"""
            update active as a set version = i.version, levels = i.levels, lane = i.lane, rank = a.rank + i.shift_us,
                exclusive = i.exclusive
            from {d.rows(1, "job:i version:n levels:n lane:n shift_us:n exclusive:n")} as i
            where {d.within("a.job", 1)} and a.job = i.job
                and a.status in ({int(Status.READY)}, {int(Status.QUEUED)})"""

    def save(self, command: SaveJobs) -> Steps[list[Saved]]:
        """See ``SaveJobs``."""
        key = command.idempotency
        if key is None:
            return (yield from self._save(command))
        namespace = command.rows[0].namespace
        created = yield from self._records.find_by_idempotency_key(namespace, key)
        if created is not None:
            return [Saved(created, 1, created=False, changed=False)]
        try:
            saved = yield from self._save(command)
        except Conflict:  # nothing was written yet; a faster request may have had the same key
            created = yield from self._records.find_by_idempotency_key(namespace, key)
            if created is None:
                raise
            return [Saved(created, 1, created=False, changed=False)]
        yield from self._records.remember_idempotency_key(namespace, key, saved[0].id, command.now_us)
        return saved

    def _save(self, command: SaveJobs) -> Steps[list[Saved]]:
        rows = command.rows if not command.merged else tuple(row for part in command.parts for row in part.rows)
        named = [(row.namespace, row.name) for row in rows]
        if len(set(named)) < len(rows):
            raise Invalid("a job occurs twice in one change; name each job once")
        deletions = {row.job: row.expect for row in command.delete}
        if len(deletions) < len(command.delete):
            raise Invalid("a job is deleted twice in one change; name each job once")
        specs = {id(row.spec): row.spec for row in rows}.values()  # many jobs share a spec
        following = any(spec.after for spec in specs)
        wanted = _WantedProfiles(rows)
        lookup = yield from self._job_lookup.find(named, wanted.gates, following=following)
        existing = lookup.existing
        if existing or [row.expect for row in rows].count(NEW) < len(rows):
            for row in rows:
                _check_expected(row, existing.get((row.namespace, row.name)))
        found = yield from self._profiles.find_or_create(wanted.gates, command.now_us, lookup.profiles)
        profiles = wanted.select(found)

        saved, new, changed, switched = classify_rows(rows, named, encode_specs(rows), existing, lookup.incarnations)
        if deletions and any(s.id in deletions for s in saved):
            raise Invalid("a job is both saved and deleted in one change; do one or the other")
        only_switched = {s.id for _, _, s in switched}
        links = (
            [
                (r.namespace, upstream, s.id, outcome)
                for r, s in zip(rows, saved, strict=True)
                if s.changed and s.id not in only_switched
                for upstream, outcome in _outcome_links(r)
            ]
            if any(spec.after or spec.on_complete is not None for spec in specs)
            else []
        )
        linked = [s.id for r, _, s in changed if _may_follow(existing[(r.namespace, r.name)][2])]
        unlinked = linked + sorted(deletions)
        touched = {(link[0], link[1]) for link in links} | (yield from self._dependencies.find_upstream(unlinked))
        upstream = yield from self._dependencies.find_ids(touched)
        gates = yield from self._lock(changed, switched, deletions, upstream)
        deleted = (yield from self._job_states.select_expected(deletions)) if deletions else []
        yield from self._job_inserts.insert(new, lookup.number, profiles, command)
        freed: set[bytes] = set()
        if changed:
            freed |= yield from self._update(changed, gates, profiles, command)
        if switched:
            freed |= yield from self._job_states.switch_saved_jobs(switched, gates, command)
        yield from self._dependencies.remove(unlinked)
        yield from self._dependencies.add(links)
        if known := lookup.followed | touched:
            created = {(r.namespace, r.name): s.id for r, _, s in new}
            upstream |= {name: job for name, job in created.items() if name in known}
        yield from self._dependencies.mark_followed(upstream)
        if deleted:
            freed |= yield from self._delete(deleted, gates, command.now_us, command.actor)
        yield from self._gates.wake_behind_freed_keys(freed, command.now_us)
        if [row.run for row in rows].count(None) < len(rows):
            yield from self._run_on_save(command, saved, only_switched)
        return saved

    def _lock(
        self,
        changed: list[EncodedJob],
        switched: list[EncodedJob],
        deletions: Iterable[bytes],
        upstream: dict[NamespacedName, bytes],
    ) -> Steps[dict[bytes, Gate]]:
        """Lock the gates of jobs that change or are deleted, and of the jobs they follow, in order."""
        before = {s.id: s.version - 1 for _, _, s in changed} | {s.id: s.version for _, _, s in switched}
        jobs = sorted({*before, *deletions, *upstream.values()})
        gates = (yield from self._gates.lock(jobs)) if jobs else {}
        if any(job not in gates or gates[job].version != version for job, version in before.items()):
            raise LostRace
        for row, _, saved in (*changed, *switched):
            check_state(row.name, gates[saved.id], row.expect_state)
        return gates

    def _update(
        self,
        changed: list[EncodedJob],
        gates: dict[bytes, Gate],
        profiles: ProfilesByGate,
        command: SaveJobs,
    ) -> Steps[set[bytes]]:
        """Write new versions of jobs. Returns the freed concurrency keys."""
        now_us = command.now_us
        jobs = [
            (
                *(s.id, s.version, spec, r.spec.owner, command.actor.name, now_us),
                *(int(gates[s.id].state == r.state), now_us if r.state is JobState.PAUSED else None),
            )
            for r, spec, s in changed
        ]
        yield Query(self._job_deletes.insert_version, rows=to_id_rows(s.id for _, _, s in changed))
        yield from self._job_tags.drop(to_id_rows(s.id for _, _, s in changed))
        yield Query(self._replace, rows=Rows("intttnnn", jobs))
        yield Query(self._set_gates, rows=Rows(GATE_TYPES, gate_rows([(r, s) for r, _, s in changed], profiles)))
        chosen = [profiles[r.namespace, id(r.gate)] for r, _, _ in changed]
        shifts = [
            (
                *(s.id, s.version, profile.levels, profile.lane),
                (gates[s.id].priority - profile.gate.priority) * PRIORITY_STEP_US,
                int(profile.gate.overlap is not Overlap.ALLOW),
            )
            for (_, _, s), profile in zip(changed, chosen, strict=True)
        ]
        yield Query(self._reconfigure, rows=Rows("innnnn", shifts))
        yield from self._job_inserts.tag_and_audit("update", [(r, s) for r, _, s in changed], command)
        changed_gates = [gates[saved.id] for _, _, saved in changed]
        keyed = [
            (r, profile.gate, g)
            for (r, _, _), profile, g in zip(changed, chosen, changed_gates, strict=True)
            if g.keyed or profile.gate.keyed
        ]
        freed: set[bytes] = set()
        for (row, _, _), profile, gate in zip(changed, chosen, changed_gates, strict=True):
            spec = profile.gate
            gate.overlap, gate.lim, gate.keyed, gate.levels = spec.overlap, spec.limit, spec.keyed, profile.levels
            freed |= yield from self._job_states.enter_state(gate, row.state, now_us)
            gate.next_us = row.next_us
        freed |= yield from self._concurrency_keys.rekey(keyed)
        for gate in changed_gates:
            freed |= yield from self._gates.requeue_beyond_limit(gate)
        yield from self._gates.wake(changed_gates, now_us=now_us)
        yield from self._gates.save(changed_gates)
        return freed

    def delete(self, command: DeleteJob) -> Steps[None]:
        """See ``DeleteJob``."""
        touched = yield from self._dependencies.find_upstream([command.job])
        upstream = yield from self._dependencies.find_ids(touched)
        gates = yield from self._gates.lock(sorted({command.job, *upstream.values()}))
        deleted = yield from self._job_states.select_expected({command.job: command.expect})
        yield from self._dependencies.remove([command.job] if touched else [])
        yield from self._dependencies.mark_followed(upstream)
        freed = yield from self._delete(deleted, gates, command.now_us, command.actor)
        yield from self._gates.wake_behind_freed_keys(freed, command.now_us)

    def _delete(self, deleted: list[Row], gates: dict[bytes, Gate], now_us: int, actor: Actor) -> Steps[set[bytes]]:
        """Delete jobs whose gates are locked; rows of ``select_expected``. Returns the freed concurrency keys."""
        freed: set[bytes] = set()
        yield from self._job_states.record_due_as_skipped(
            [(gates[row[0]], now_us, ReasonCode.JOB_DELETED) for row in deleted]
        )
        for job, *_ in deleted:
            gate = gates[job]
            freed |= yield from self._gates.cancel_not_running(gate, ReasonCode.JOB_DELETED, None, now_us)
            if gate.active:
                yield from self._gates.request_cancel_of_job(job, CancelRequest.DELETED)
        states = Counter(gates[row[0]].state for row in deleted)
        yield from self._job_deletes.delete_jobs([row[:4] for row in deleted], states, now_us)
        names = [(namespace, name) for _, namespace, name, _, _ in deleted]
        yield from self._records.audit_lines_by_actor(
            actor, now_us, audit_lines_about_jobs("delete", [(*name, "") for name in names])
        )
        return freed

    def _run_on_save(self, command: SaveJobs, saved: Sequence[Saved], switched: Collection[bytes]) -> Steps[None]:
        """Admit the runs on save, under the gates of the new and changed jobs."""
        parts = ((part, row) for part in command.parts for row in part.rows)
        requested: dict[bytes, tuple[SaveJobs, JobRow, RunRow]] = {}
        for (part, row), answer in zip(parts, saved, strict=True):
            if row.run is not None and answer.changed and answer.id not in switched:
                requested[answer.id] = part, row, _first_run(answer, row.run, part.now_us)
        if not requested:
            return
        gates = yield from self._gates.lock(sorted(requested))
        if len(requested) > 1:  # lock all keys together, in order
            runs = [run for _, _, run in requested.values()]
            yield from self._gates.lock_keys({run.key: run.key_limit for run in runs if run.key is not None})
        for job, (part, row, run) in sorted(requested.items()):
            _, rejected = yield from self._admission.admit_runs(gates[job], [run], now_us=part.now_us)
            if rejected:
                raise QueueFull(
                    f'"{row.name}" cannot run now, because its queue is full ({gates[job].queued} of '
                    f"{gates[job].queue_max}), and nothing was saved; wait, or raise queue_max"
                )
        yield from self._gates.save(gates.values())
        yield from self._records.audit_lines(
            (part.actor, part.now_us, ("trigger", row.namespace, row.name, run.id.hex()))
            for part, row, run in requested.values()
        )


class _WantedProfiles:
    """The profiles of the rows of a command. Many rows share their gate settings, so those are told by identity."""

    def __init__(self, rows: Sequence[JobRow]) -> None:
        shared = {(row.namespace, id(row.gate)): row.gate for row in rows}
        ids = {key: profile_id(write_gate(gate)) for key, gate in {id(gate): gate for gate in shared.values()}.items()}
        self._keys = {(namespace, key): (namespace, ids[key]) for namespace, key in shared}
        self.gates = {self._keys[key]: gate for key, gate in shared.items()}

    def select(self, found: Mapping[ProfileKey, Profile]) -> dict[tuple[str, int], Profile]:
        """Return the profiles by namespace and the identity of the gate settings."""
        return {key: found[profile_key] for key, profile_key in self._keys.items()}


def _may_follow(text: str) -> bool:
    """Return whether a job with this spec may have dependencies. An unreadable one may."""
    return any(word in text for word in _LINK_FIELDS) or isinstance(record.to_job_spec(text), Unreadable)


def _check_expected(row: JobRow, existing: Row | None) -> None:
    if row.expect is None:
        return
    if row.expect == NEW and existing is not None:
        raise Conflict(f'a job named "{row.name}" exists already; choose another name, or replace it')
    if row.expect != NEW and existing is None:
        raise Conflict(f'"{row.name}" no longer exists: you have version {row.expect}')
    if row.expect != NEW and existing is not None and existing[1] != row.expect:
        raise Conflict(
            f'"{row.name}" changed since you read it: you have version {row.expect}, the current one is {existing[1]}'
        )


def _outcome_links(row: JobRow) -> list[tuple[str, str]]:
    """Return the dependencies of a job: those of its ``after``, and one on itself if it has ``on_complete``."""
    links = [(after.job, after.on.value) for after in row.spec.after]
    return links if row.spec.on_complete is None else [*links, (row.name, OWN_OUTCOME)]


def _first_run(saved: Saved, run: RunOnSave, now_us: int) -> RunRow:
    """Return the execution that starts with a version of a job. Its id ensures that there is only one."""
    request = f"chronos:saved:{saved.id.hex()}:{saved.version}".encode()
    execution = requested_execution_id(saved.id, Cause.MANUAL, now_us, request)
    return RunRow(execution, Cause.MANUAL, now_us, now_us, None, run.key, run.key_limit)
