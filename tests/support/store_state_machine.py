"""A state machine that sends the same random commands to several stores, one after the other, and compares everything.

It knows little on purpose: which runs it claimed, and which jobs it paused or deleted. The stores check each other
(results, lists, counts) and themselves (``verify``). G1, G2, G5, G6 and G13 are checked against what the machine knows.
"""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, initialize, precondition, rule

from chronos.core.admission_policy import GateSpec, is_held
from chronos.core.config import Overlap
from chronos.core.execution import AttemptStatus, Cause, Execution, Span, Status
from chronos.core.ids import key_gate_id, requested_execution_id, scheduled_execution_id, span_id
from chronos.core.job import JobSpec, JobState, ScheduleSpec, UpstreamJob
from chronos.core.reasons import Reason, ReasonCode
from chronos.store.commands import (
    AckOutbox,
    Admit,
    AdmitRow,
    Advance,
    AdvanceRow,
    Backfill,
    Beat,
    CancelExecution,
    Claim,
    DeleteJob,
    DeleteRow,
    EndedAttempt,
    FollowUp,
    JobRow,
    OutputRow,
    Reap,
    ReapRow,
    RecordSkip,
    Recover,
    RegisterNode,
    Release,
    ReleaseRow,
    RunOnSave,
    RunRow,
    Saved,
    SaveJobs,
    SetJobState,
    Settle,
    Settled,
    SettleRow,
    Signal,
    Suspend,
    SuspendRow,
    TakeOutbox,
    Trigger,
    Trim,
    Wake,
    WriteOutput,
)
from chronos.store.contract import DueGate, ExecutionFilter
from tests.support.answer_normalizer import due
from tests.support.engine_pair import T0, SideBySide

SECOND = 1_000_000
DAY = 86_400 * SECOND
KEPT = 5  # ended executions of each job
NAMES = st.sampled_from(["a", "b", "c"])
KEYS = [key_gate_id("default", "k1"), key_gate_id("default", "k2")]
OUTCOMES = st.sampled_from([Status.SUCCEEDED, Status.FAILED, Status.CANCELED, Status.COMPLETED_WITH_ERRORS])


class StoreMachine(SideBySide):
    """Random commands to stores that must agree."""

    runs = Bundle("runs")  # (id, job, token) of claims; some are stale

    @initialize(overlap=st.sampled_from([Overlap.QUEUE, Overlap.SKIP, Overlap.REPLACE]))
    def start(self, overlap: Overlap) -> None:
        """Register a node, and save a job that runs one execution at a time."""
        self.nodes.append(self.apply(RegisterNode(name="one", incarnation=self.request(), now_us=self.now, slots=3)))
        gate = GateSpec(overlap=overlap, lane="x", keep_count=KEPT)
        row = JobRow(namespace="default", name="a", spec=JobSpec(), gate=gate, next_us=self.now + SECOND)
        [self.jobs["a"]] = self.apply(SaveJobs(rows=(row,), now_us=self.now))

    @rule(
        name=NAMES,
        overlap=st.sampled_from(Overlap),
        limit=st.integers(0, 2),
        queue_max=st.integers(0, 3),
        keyed=st.booleans(),
        key=st.sampled_from([None, "k1", "k2", "{{ payload }}"]),
        key_limit=st.integers(0, 2),
        priority=st.integers(1, 10),
        lane=st.sampled_from(["x", "y"]),
        note=st.integers(0, 3),
        tag=st.sampled_from(["p", "q"]),
        follows=st.sampled_from([None, None, "a", "b", "c"]),
        state=st.sampled_from([JobState.ACTIVE, JobState.ACTIVE, JobState.PAUSED, JobState.DISABLED]),
        expect_state=st.sampled_from([None, None, JobState.ACTIVE, JobState.PAUSED, JobState.DISABLED]),
        run=st.sampled_from([None, None, RunOnSave(), *(RunOnSave(key, 1) for key in KEYS)]),
    )
    def save(
        self,
        *,
        name: str,
        note: int,
        tag: str,
        follows: str | None,
        overlap: Overlap,
        limit: int,
        keyed: bool,
        key: str | None,
        key_limit: int,
        state: JobState,
        expect_state: JobState | None,
        run: RunOnSave | None,
        **gate: Any,
    ) -> None:
        spec = JobSpec(
            schedule=ScheduleSpec(text="@every 1s"),
            description=str(note),
            tags={tag: str(note)},
            after=(UpstreamJob(job=follows),) if follows else (),
        )
        spec_gate = GateSpec(
            overlap=overlap,
            limit=limit if overlap is Overlap.ALLOW else 1,
            keyed=keyed,
            key=key if keyed else None,
            key_limit=max(key_limit, 1 if key else 0) if keyed else 0,
            keep_count=KEPT,
            **gate,
        )
        row = JobRow(
            namespace="default",
            name=name,
            spec=spec,
            gate=spec_gate,
            next_us=self.now + SECOND,
            state=state,
            expect_state=expect_state,
            run=RunOnSave() if run is not None and not keyed else run,
        )
        saved = self.apply(SaveJobs(rows=(row,), now_us=self.now))
        if saved:
            self.jobs[name] = saved[0]
            if overlap is Overlap.ALLOW:
                self.shared.add(saved[0].id)
            if saved[0].changed:
                self._switched(saved[0].id, state)
                request = f"chronos:saved:{saved[0].id.hex()}:{saved[0].version}".encode()
                self.by_hand.add(requested_execution_id(saved[0].id, Cause.MANUAL, self.now, request))

    @rule(seconds=st.integers(0, 3))
    def pass_time(self, seconds: int) -> None:
        self.now += seconds * SECOND + 1

    @precondition(lambda self: self.jobs)
    @rule(target=runs, claim=st.booleans(), key=st.sampled_from([None, *KEYS]), last=st.booleans(), data=st.data())
    def admit(self, claim: bool, key: bytes | None, last: bool, data: st.DataObject) -> Any:
        found: list[DueGate] = self.ask(lambda store: due(store, self.now + 2 * SECOND))
        rows = []
        for gate in found:
            if not data.draw(st.booleans()):
                continue
            self.now = max(self.now, gate.next_us)
            rows.append(
                AdmitRow(
                    gate.job,
                    gate.version,
                    gate.next_us,
                    None if last and data.draw(st.booleans()) else gate.next_us + SECOND,
                    scheduled_execution_id(gate.job, gate.next_us),
                    gate.next_us,
                    claim,
                    gate.needs_gate_lock,
                    key if gate.needs_gate_lock else None,
                    1,
                )
            )
        if not rows:
            return ()
        command = Admit(rows=tuple(rows), node=self.nodes[-1], now_us=self.now, request=self.request())
        admitted = self.apply(command)
        repeated = {row.id for row in rows} - {a.id for a in admitted}
        assert all(row.expect_us <= self.recorded.get(row.job, 0) for row in rows if row.id in repeated)
        for row in rows:
            self.recorded[row.job] = max(row.expect_us, self.recorded.get(row.job, 0))
        assert self.admitted.isdisjoint(a.id for a in admitted), "an instant was admitted twice"
        self.admitted.update(a.id for a in admitted)
        assert self.apply(command) == [], "the same instants were admitted again"
        return self._pick(self.given([a for a in admitted if a.status is Status.RUNNING]))

    @rule(
        target=runs,
        limit=st.integers(1, 4),
        lanes=st.sampled_from([(1,), (2,), (1, 2), ()]),
        late=st.sampled_from([(), (1,), (1, 2)]),
        waited_us=st.sampled_from([0, SECOND, 3 * SECOND]),
    )
    def claim(self, limit: int, lanes: tuple[int, ...], late: tuple[int, ...], waited_us: int) -> Any:
        command = Claim(
            lanes=lanes,
            limit=limit,
            node=self.nodes[-1],
            now_us=self.now,
            request=self.request(),
            late_lanes=tuple((lane, self.now - waited_us) for lane in late if lane not in lanes),
        )
        return self._pick(self.given(self.apply(command)))

    def _pick(self, taken: list[tuple[bytes, bytes, int]]) -> Any:
        for one in taken[1:]:
            self._extra.append(one)
        return taken[0] if taken else ()

    @precondition(lambda self: self._extra)
    @rule(target=runs)
    def another(self) -> Any:
        return self._extra.pop()

    @rule(target=runs, run=runs, status=OUTCOMES, take=st.integers(0, 2), dead=st.booleans(), follow=st.booleans())
    def settle(self, run: Any, status: Status, take: int, dead: bool, follow: bool) -> Any:
        if not run:
            return ()
        execution, job, token = run
        items = (FollowUp("hook", "done", "{}"),) if follow else ()
        row = SettleRow(
            execution, job, token, status, ReasonCode.TASK_FAILED, None, self.now, None, (), items, dead_letter=dead
        )
        settled: Settled = self.apply(
            Settle(rows=(row,), node=self.nodes[-1], now_us=self.now, take=take, take_lanes=(1, 2))
        )
        if settled.settled:
            assert self.current[execution] == token, "an old token settled an execution"
        return self._pick(self.given(settled.started_successors))

    @rule(run=runs, delay=st.integers(0, 3), signal=st.sampled_from([None, "go"]))
    def suspend(self, run: Any, delay: int, signal: str | None) -> None:
        if run:
            execution, _, token = run
            tried = EndedAttempt(execution, "t", token, AttemptStatus.FAILED, self.now, self.now, 1, "e")
            wake = None if signal and not delay else self.now + delay * SECOND
            row = SuspendRow(execution, token, wake, ("other", signal) if signal else (), 2, 7, None, (tried,))
            held = self.apply(Suspend(rows=(row,), now_us=self.now))
            assert not held or self.current[execution] == token

    @rule(run=runs)
    def advance(self, run: Any) -> None:
        if run:
            self.apply(Advance(rows=(AdvanceRow(run[0], run[2], '{"tasks":[1]}'),)))

    @rule(run=runs)
    def release(self, run: Any) -> None:
        if run:
            self.apply(Release(rows=(ReleaseRow(run[0], run[2], 3),), now_us=self.now))

    @rule(limit=st.integers(1, 3))
    def wake(self, limit: int) -> None:
        self.apply(Wake(now_us=self.now, limit=limit))

    @rule(run=runs)
    def signal(self, run: Any) -> None:
        if run:
            self.apply(Signal(execution=run[0], name="go", payload="1", now_us=self.now))

    @precondition(lambda self: self.jobs)
    @rule(
        data=st.data(),
        idempotency=st.sampled_from([None, "k"]),
        key=st.sampled_from([None, *KEYS]),
        cause=st.sampled_from([Cause.MANUAL, Cause.MANUAL, Cause.REPLAY, Cause.DEPENDENCY]),
        payload=st.sampled_from([None, '{"payload":"k1"}', '{"payload":"k2"}']),
    )
    def trigger(
        self, data: st.DataObject, idempotency: str | None, key: bytes | None, cause: Cause, payload: str | None
    ) -> None:
        """A trigger may be for a past instant, and then starts before the queued ones."""
        saved = self.jobs[data.draw(st.sampled_from(sorted(self.jobs)))]
        request = idempotency.encode() if idempotency else self.request()
        execution = requested_execution_id(saved.id, cause, self.now, request)
        at_us = self.now - data.draw(st.sampled_from([0, 5])) * SECOND
        run = RunRow(execution, cause, at_us, self.now, payload, key, 1)
        answer = self.apply(Trigger(job=saved.id, run=run, now_us=self.now, idempotency=idempotency))
        if answer is not None and answer.created:
            self.admitted.add(execution)
            self._asked_for(saved.id, execution, cause)

    @precondition(lambda self: self.jobs)
    @rule(data=st.data(), count=st.integers(1, 4), idempotency=st.sampled_from([None, "b"]))
    def backfill(self, data: st.DataObject, count: int, idempotency: str | None) -> None:
        saved = self.jobs[data.draw(st.sampled_from(sorted(self.jobs)))]
        request = idempotency.encode() if idempotency else self.request()
        first = data.draw(st.integers(1, 3))
        runs = tuple(
            RunRow(
                requested_execution_id(saved.id, Cause.BACKFILL, self.now, request, T0 - SECOND * (10 - place)),
                *(Cause.BACKFILL, T0 - SECOND * (10 - place), self.now + place),
            )
            for place in range(first, first + count)
        )
        answer = self.apply(Backfill(job=saved.id, runs=runs, now_us=self.now, idempotency=idempotency))
        if answer is not None:
            created = set(answer.ids) & {run.id for run in runs}
            self.admitted |= created
            for execution in created:
                self._asked_for(saved.id, execution, Cause.BACKFILL)

    @precondition(lambda self: self.jobs)
    @rule(data=st.data(), count=st.integers(0, 3), missed=st.integers(0, 4))
    def recover(self, data: st.DataObject, count: int, missed: int) -> None:
        name = data.draw(st.sampled_from(sorted(self.jobs)))
        job = self.ask(lambda store: store.job_named("default", name))
        if job is None or job.next_us is None:
            return
        begin = job.next_us
        spans: tuple[Span, ...] = ()
        if missed:
            spans = (
                Span(
                    id=span_id(job.id, begin, int(Status.MISSED)),
                    job=job.id,
                    status=Status.MISSED,
                    from_us=begin,
                    to_us=begin + (missed - 1) * SECOND,
                    count=missed,
                    reason=Reason.of(ReasonCode.MISSED),
                    recorded_us=self.now,
                ),
            )
        first = begin + missed * SECOND
        instants = [first + i * SECOND for i in range(count)]
        runs = tuple(RunRow(scheduled_execution_id(job.id, t), Cause.RECOVERY, t, t) for t in instants)
        admitted = self.apply(
            Recover(
                job=job.id,
                version=job.version,
                expect_us=begin,
                next_us=first + count * SECOND,
                runs=runs,
                spans=spans,
                now_us=self.now,
            )
        )
        self.admitted.update(a.id for a in admitted or ())
        if admitted is not None:
            self.recorded[job.id] = max([self.recorded.get(job.id, 0), *instants, *(span.to_us for span in spans)])

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def skip(self, data: st.DataObject) -> None:
        saved = self.jobs[data.draw(st.sampled_from(sorted(self.jobs)))]
        execution = requested_execution_id(saved.id, Cause.DEPENDENCY, self.now, b"skip")
        cause, code = Cause.DEPENDENCY, ReasonCode.UPSTREAM_FAILED
        common = {"id": execution, "job": saved.id, "scheduled_us": self.now, "now_us": self.now}
        if self.apply(RecordSkip(cause=cause, code=code, message=None, **common)):  # type: ignore[arg-type]
            self.admitted.add(execution)

    @rule(run=runs, text=st.sampled_from(["", "said", "é\n"]))
    def write(self, run: Any, text: str) -> None:
        if run:
            self.apply(
                WriteOutput(rows=(OutputRow(run[0], "task", 1, 0, text), OutputRow(run[0], "task", 1, -1, text)))
            )
            self.ask(lambda store: store.output(run[0]))

    @rule(run=runs)
    def cancel(self, run: Any) -> None:
        if run:
            self.apply(CancelExecution(execution=run[0], now_us=self.now))

    @precondition(lambda self: self.jobs)
    @rule(
        data=st.data(),
        state=st.sampled_from([JobState.ACTIVE, JobState.PAUSED, JobState.DISABLED]),
        expect_state=st.sampled_from([None, *JobState]),
    )
    def set_state(self, data: st.DataObject, state: JobState, expect_state: JobState | None) -> None:
        saved = self.jobs[data.draw(st.sampled_from(sorted(self.jobs)))]
        if self.apply(
            SetJobState(
                job=saved.id, state=state, now_us=self.now, next_us=self.now + SECOND, expect_state=expect_state
            )
        ):
            self._switched(saved.id, state)

    def _asked_for(self, job: bytes, execution: bytes, cause: Cause) -> None:
        """A request by a caller that knows whether the job is paused. A later pause may still hold it."""
        self.asked.setdefault(job, {})[execution] = cause
        if not is_held(cause, admitted_before_pause=job not in self.paused):
            self.by_hand.add(execution)

    def _switched(self, job: bytes, state: JobState) -> None:
        if state is JobState.PAUSED and job not in self.paused:
            self.by_hand -= {
                id_ for id_, cause in self.asked.get(job, {}).items() if is_held(cause, admitted_before_pause=True)
            }
        (self.paused.add if state is JobState.PAUSED else self.paused.discard)(job)

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.jobs)))
        saved = self.jobs.pop(name)
        self.apply(DeleteJob(job=saved.id, now_us=self.now))
        self._gone(saved)

    @precondition(lambda self: self.jobs)
    @rule(data=st.data(), stale=st.booleans())
    def delete_some(self, data: st.DataObject, stale: bool) -> None:
        names = data.draw(st.lists(st.sampled_from(sorted(self.jobs)), unique=True))
        rows = [DeleteRow(self.jobs[name].id) for name in names]
        if stale and rows:
            rows[-1] = rows[-1]._replace(expect=99)
        if self.apply(SaveJobs(rows=(), now_us=self.now, delete=tuple(rows))) is not None:
            for name in names:
                self._gone(self.jobs.pop(name))

    def _gone(self, saved: Saved) -> None:
        self.deleted.add(saved.id)
        self.paused.discard(saved.id)

    @rule(final=st.booleans())
    def node_dies(self, final: bool) -> None:
        dead = self.nodes[-1]
        held = self.ask(lambda store: store.running_on(dead))
        rows = tuple(
            ReapRow(
                run.id,
                run.job,
                run.token,
                Status.STALE if final else Status.READY,
                ReasonCode.WORKER_LOST,
                run.attempt + 1,
                (EndedAttempt(run.id, "t", run.token, AttemptStatus.LOST, self.now, self.now, dead),),
            )
            for run in held
        )
        [node] = [node for node in self.ask(lambda store: store.nodes()) if node.number == dead]
        reaped = self.apply(Reap(node=dead, beat=node.beat, rows=rows, now_us=self.now))
        assert set(reaped) <= {row.id for row in rows}
        assert self.ask(lambda store: store.running_on(dead)) == []
        self.nodes.append(self.apply(RegisterNode(name="next", incarnation=self.request(), now_us=self.now)))

    @rule()
    def beat(self) -> None:
        node = self.nodes[-1]
        [known] = [n for n in self.ask(lambda store: store.nodes()) if n.number == node]
        beaten = self.apply(Beat(node=node, beat=known.beat + 1, now_us=self.now))
        assert beaten.alive

    @rule(limit=st.integers(1, 3))
    def empty_outbox(self, limit: int) -> None:
        items = self.apply(TakeOutbox(node=self.nodes[-1], limit=limit))
        self.apply(AckOutbox(ids=tuple(item.id for item in items)))

    @precondition(lambda self: self.now < T0 + 300 * DAY)
    @rule()
    def pass_months(self) -> None:
        """Pass some months, but not so many that the id of a deleted job is used again."""
        self.now += 100 * DAY

    @rule(limit=st.integers(1, 50))
    def trim(self, limit: int) -> None:
        before = self._ended()
        went = self.apply(Trim(now_us=self.now, limit=limit))
        after = self._ended()
        gone = before.keys() - after.keys()
        assert after.keys() <= before.keys()
        assert len(gone) <= went <= limit
        newest: dict[bytes, list[bytes]] = {}
        for one in sorted(before, reverse=True):
            newest.setdefault(before[one].job, []).append(one)
        for one in gone:
            wanted = one in newest[before[one].job][:KEPT] and _ended_us(before[one]) >= self.now - 90 * DAY
            assert not wanted, before[one]
        self.admitted -= gone

    def _ended(self) -> dict[bytes, Execution | Span]:
        page = self.ask(lambda store: store.list_executions(ExecutionFilter(), limit=5_000))
        return {item.id: item for item in page.items if isinstance(item, Span) or item.status.final}


def _ended_us(item: Execution | Span) -> int:
    if isinstance(item, Span):
        return item.recorded_us
    assert item.finished_us is not None
    return item.finished_us
