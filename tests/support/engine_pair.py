"""Several stores that receive the same commands, and the invariants after every step."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis.stateful import RuleBasedStateMachine, invariant

from chronos.core.execution import Cause, Status, is_allowed_transition
from chronos.errors import ChronosError
from chronos.store.commands import Command, Saved
from chronos.store.contract import ExecutionFilter, JobFilter, Store
from tests.support.answer_normalizer import plain

T0 = 1_800_000_000_000_000


class SideBySide(RuleBasedStateMachine):
    """Stores that must agree, and what the test knows about the commands it sent."""

    def __init__(self, make_stores: Callable[[], Sequence[Store]]) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.stores = list(make_stores())
        for store in self.stores:
            self.runner.run(store.open())
        self.now = T0
        self.requests = 0
        self.nodes: list[int] = []
        self.jobs: dict[str, Saved] = {}
        self.paused: set[bytes] = set()
        self.deleted: set[bytes] = set()
        self.admitted: set[bytes] = set()
        self.started: set[bytes] = set()
        self.statuses: dict[bytes, Status] = {}
        self.recorded: dict[bytes, int] = {}  # the latest instant of each job that may be on record
        self.by_hand: set[bytes] = set()  # executions that may start although their job is paused
        self.asked: dict[bytes, dict[bytes, Cause]] = {}  # by job: requested executions
        self._extra: list[tuple[bytes, bytes, int]] = []  # claimed together with one in the bundle
        self.current: dict[bytes, int] = {}  # the token of the last claim of each execution
        self.shared: set[bytes] = set()  # jobs that ever allowed overlap
        self.latest: dict[bytes, int] = {}  # the token of the last claim of each job

    def teardown(self) -> None:
        for store in self.stores:
            self.runner.run(store.close())
        self.runner.close()

    # --- helpers

    def apply(self, command: Command[Any]) -> Any:
        """Apply a command to every store, and assert equal results."""
        answers = []
        for store in self.stores:
            try:
                answers.append(plain(self.runner.run(store.apply(command))))
            except ChronosError as error:
                answers.append((type(error), str(error)))
        for other in answers[1:]:
            assert other == answers[0], command
        return self._kept(answers[0])

    def ask(self, read: Callable[[Store], Any]) -> Any:
        """Query every store, and assert equal results."""
        answers = [self.runner.run(read(store)) for store in self.stores]
        for other in answers[1:]:
            assert other == answers[0]
        return answers[0]

    def _kept(self, answer: Any) -> Any:
        return None if isinstance(answer, tuple) and answer and isinstance(answer[0], type) else answer

    def request(self) -> bytes:
        self.requests += 1
        return self.requests.to_bytes(16)

    def given(self, rows: Sequence[Any]) -> list[tuple[bytes, bytes, int]]:
        """Remember the runs that this command started."""
        taken = []
        for row in rows:
            assert row.job not in self.deleted, "a deleted job's execution started"
            fresh = row.id not in self.started
            assert not (fresh and row.job in self.paused and row.id not in self.by_hand), "a paused job's run started"
            assert row.token > self.current.get(row.id, 0), "a token was given out twice"
            assert row.job in self.shared or row.token > self.latest.get(row.job, 0), "a job's token went back"
            self.current[row.id] = self.latest[row.job] = row.token
            self.started.add(row.id)
            taken.append((row.id, row.job, row.token))
        return taken

    # --- invariants after every step

    @invariant()
    def stores_are_sound(self) -> None:
        for store in self.stores:
            unsound = self.runner.run(store.verify())
            assert unsound == [], unsound

    @invariant()
    def stores_agree(self) -> None:
        self.ask(lambda store: store.counts())
        self.ask(lambda store: store.list_jobs(JobFilter(), limit=50))
        self.ask(lambda store: store.depths())
        self.ask(lambda store: store.next_due_us())
        self.ask(lambda store: store.next_wake_us())
        self.ask(lambda store: store.ready_lanes())
        self.ask(lambda store: store.outbox(limit=1_000))
        self.ask(lambda store: store.ended_since((0, bytes(16)), 5_000))
        self.ask(lambda store: store.followers("default", "a"))
        self.ask(lambda store: store.running_since(self.now, 100))

    @invariant()
    def nothing_is_lost_and_statuses_change_as_documented(self) -> None:
        page = self.ask(lambda store: store.list_executions(ExecutionFilter(), limit=5_000))
        assert self.admitted <= {item.id for item in page.items}
        for item in page.items:
            assert item.status is Status.QUEUED or not getattr(item, "held", False), "a held execution blocks others"
            before = self.statuses.get(item.id)
            if before is not None:  # one command may create an execution and replace it at once
                assert before is item.status or is_allowed_transition(before, item.status), (before, item.status)
            self.statuses[item.id] = item.status
