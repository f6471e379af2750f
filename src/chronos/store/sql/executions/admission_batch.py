"""A batch of admissions in memory: what was read under locked gates, and the decisions to write.

    read for all gates ─► decide run by run (``core.admission_policy``) ─► write for all gates

So hundreds of jobs take as many statements as one. Each run is decided as if the runs before it were already written.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field

from chronos.core.admission_policy import PRIORITY_STEP_US, AdmissionVerdict, admit, is_held
from chronos.core.config import Overlap
from chronos.core.execution import Cause, Status
from chronos.core.fencing_token import first_token, next_claim_token
from chronos.core.job import JobState
from chronos.core.reasons import ReasonCode
from chronos.store.commands import Admitted, RunRow
from chronos.store.sql.executions.gates import Gate, KeyGate, OpenExecution, count_out, skip_used_turns
from chronos.store.sql.query import Row

#: Columns of ``AdmissionBatch.inserted``, for ``active``.
INSERTED_COLUMNS = (
    "id:i job:i version:n cause:n scheduled_us:n lane:n rank:n status:n exclusive:n owner:n token:n "
    "admitted_us:n started_us:n key:i request:i detail:t held:n wake_us:n levels:n"
)
#: Columns of ``AdmissionBatch.skipped``, for ``history``.
SKIPPED_COLUMNS = "id:i job:i version:n cause:n scheduled_us:n code:t token:n now_us:n detail:t levels:n"


@dataclass(slots=True, kw_only=True)
class AdmissionBatch:
    """Decides runs. Gates and keys are changed in place; the caller writes them and the lists here."""

    now_us: int
    node: int | None = None
    request: bytes | None = None
    known: set[bytes]  # ids of runs that exist, open or ended
    keys: dict[bytes, KeyGate]
    open: dict[bytes, dict[bytes, OpenExecution]]  # open executions of ``replace`` jobs, by job and id
    inserted: list[Row] = field(default_factory=list)
    skipped: list[Row] = field(default_factory=list)
    replaced: dict[bytes, Gate] = field(default_factory=dict)  # executions that end as replaced
    cancel_requested: dict[bytes, None] = field(default_factory=dict)  # running executions to cancel

    def decide(
        self,
        gate: Gate,
        runs: Sequence[RunRow],
        *,
        claim: bool = False,
        late: bool = False,
        all_or_nothing: bool = False,
    ) -> tuple[list[Admitted], list[RunRow]]:
        """Admit runs under one gate, in order. Returns the admitted and the rejected runs.

        - A run that exists is ignored.
        - ``late`` runs are queued instead of skipped on overlap, because only their lateness caused it.
        - With ``all_or_nothing``, one rejected run leaves everything unchanged.
        """
        if all_or_nothing and (
            rejected := self._copy_for_trial(gate, runs).decide(copy(gate), runs, claim=claim, late=late)[1]
        ):
            return [], rejected
        for run in runs:
            if run.key is not None:
                self.keys[run.key].lim = run.key_limit  # the last run wins, as in the table
        admitted: list[Admitted] = []
        rejected = []
        for run in runs:
            scheduled = run.cause in (Cause.SCHEDULE, Cause.RECOVERY)
            if run.id in self.known or (scheduled and run.scheduled_us <= gate.done_us):
                continue
            if run.wake_us is not None and run.wake_us > self.now_us:
                admitted.append(self._delay(gate, run))
                continue
            held = gate.state == JobState.PAUSED and is_held(run.cause, admitted_before_pause=False)
            if gate.overlap is Overlap.REPLACE and gate.active + gate.queued > 0:
                self._replace(gate, held=held)
            key = self.keys.get(run.key) if run.key is not None else None
            verdict = _decide_admission(gate, key, requested=late or run.cause.requested, held=held)
            if verdict is AdmissionVerdict.REFUSE:
                rejected.append(run)
                continue
            if scheduled:
                gate.done_us = run.scheduled_us
            gate.seq += 1
            if verdict in (AdmissionVerdict.SKIP_OVERLAP, AdmissionVerdict.SKIP_FULL):
                admitted.append(self._skip(gate, run, verdict))
            else:
                admitted.append(self._insert(gate, key, run, verdict, claim=claim, held=held))
        return admitted, rejected

    def _copy_for_trial(self, gate: Gate, runs: Sequence[RunRow]) -> "AdmissionBatch":
        """Return a copy of the batch with the keys and executions of one gate."""
        opened = self.open.get(gate.job, {})
        used = {run.key for run in runs} | {execution.key for execution in opened.values()}
        keys = {key: copy(self.keys[key]) for key in used if key in self.keys}
        return AdmissionBatch(now_us=self.now_us, known=self.known, keys=keys, open={gate.job: dict(opened)})

    def _replace(self, gate: Gate, *, held: bool) -> None:
        """End executions that do not run and ask running ones to cancel. A ``held`` run replaces only held ones."""
        opened = self.open[gate.job]
        for id_, (status, key, is_held_too, token, delayed) in list(opened.items()):
            if delayed or (held and not is_held_too):
                continue
            if status == Status.RUNNING:
                self.cancel_requested[id_] = None
                continue
            del opened[id_]
            self.replaced[id_] = gate
            count_out(gate, status)
            skip_used_turns(gate, token)
            if key is not None:
                count_out(self.keys[key], status)

    def _skip(self, gate: Gate, run: RunRow, verdict: AdmissionVerdict) -> Admitted:
        code = ReasonCode.OVERLAP if verdict is AdmissionVerdict.SKIP_OVERLAP else ReasonCode.QUEUE_FULL
        token = first_token(gate.seq)
        identity = (run.id, gate.job, gate.version, int(run.cause), run.scheduled_us)
        self.skipped.append((*identity, code.value, token, self.now_us, run.detail, gate.levels))
        return Admitted(run.id, gate.job, Status.SKIPPED, token, code=code)

    def _delay(self, gate: Gate, run: RunRow) -> Admitted:
        """Insert an execution that waits for its first start. The gate counts it from then on."""
        gate.seq += 1
        token = first_token(gate.seq)
        self._add_row(gate, run, Status.WAITING, token=token, wake_us=run.wake_us)
        return Admitted(run.id, gate.job, Status.WAITING, token, gate.ran_us)

    def _insert(
        self, gate: Gate, key: KeyGate | None, run: RunRow, verdict: AdmissionVerdict, *, claim: bool, held: bool
    ) -> Admitted:
        runs_now = verdict is AdmissionVerdict.RUN
        for counted in (gate, key):
            if counted is not None:
                counted.active += runs_now
                counted.queued += not runs_now
        status = Status.QUEUED if not runs_now else Status.RUNNING if claim else Status.READY
        owned = status is Status.RUNNING
        token = next_claim_token(first_token(gate.seq)) if owned else first_token(gate.seq)
        self._add_row(gate, run, status, token=token, held=held)
        if gate.overlap is Overlap.REPLACE:
            self.open.setdefault(gate.job, {})[run.id] = OpenExecution(status, run.key, held, token)
        return Admitted(run.id, gate.job, status, token, gate.ran_us)

    def _add_row(
        self, gate: Gate, run: RunRow, status: Status, *, token: int, held: bool = False, wake_us: int | None = None
    ) -> None:
        owned = status is Status.RUNNING
        self.inserted.append(
            (
                *(run.id, gate.job, gate.version, int(run.cause), run.scheduled_us, gate.lane),
                run.ready_us - gate.priority * PRIORITY_STEP_US,
                *(int(status), int(gate.overlap is not Overlap.ALLOW), self.node if owned else None, token),
                *(self.now_us, self.now_us if owned else None, run.key, self.request, run.detail),
                *(int(held), wake_us, gate.levels),
            )
        )


def _decide_admission(gate: Gate, key: KeyGate | None, *, requested: bool, held: bool) -> AdmissionVerdict:
    return admit(
        overlap=gate.overlap,
        limit=gate.lim,
        queue_max=gate.queue_max,
        active=gate.active,
        queued=gate.queued,
        requested=requested,
        key_full=key is not None and key.active >= key.lim > 0,
        held=held,
    )
