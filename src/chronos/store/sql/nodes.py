"""Steps for nodes: registration, heartbeats, shutdown. The same on every engine."""

from chronos.core.execution import CancelRequest, Status
from chronos.store.commands import Beat, BeatResult, NodeExecution, RegisterNode, StopNode
from chronos.store.sql.query import Dialect, Query, Steps
from chronos.store.sql.row_mappers import write_labels


class NodeHandler:
    """Registers nodes and records their heartbeats and shutdowns."""

    def __init__(self, d: Dialect) -> None:
        self._mutex = d.mutex()
        self._same_node = "select number from node where incarnation = $1"
        self._register = """
            insert into node (number, name, incarnation, started_us, beat_us, slots, labels)
            select coalesce(max(number), 0) + 1, $1, $2, $3, $3, $4, $5 from node returning number"""
        self._offer = "update node set offer = $2 where number = $1 and stopped_us is null"
        beat = """update node set beat = $2, beat_us = $3, offer = coalesce($4, offer)
            where number = $1 and stopped_us is null and beat <= $2 returning number"""
        running = f"""
            select a.id, a.token, a.cancel, a.cancel_message from {{}} as b left join active as a
            on a.owner = $1 and a.status = {int(Status.RUNNING)} order by a.id"""
        # On PostgreSQL a heartbeat is one statement. In a transaction, a node that hangs would keep its row locked, and
        # the nodes that check whether it is dead would wait for it.
        self._running: str | None = None
        self._beat = f"with b as ({beat}) {running.format('b')}"
        if d.name == "sqlite":
            self._beat, self._running = beat, running.format("(select $1 as number)")
        self._stop = "update node set stopped_us = $2 where number = $1 and stopped_us is null"
        self._release_outbox = "update outbox set owner = null where owner = $1"

    def register(self, command: RegisterNode) -> Steps[int]:
        """See ``RegisterNode``."""
        if self._mutex:
            yield Query(self._mutex)
        rows = yield Query(self._same_node, (command.incarnation,))
        if not rows:
            labels = write_labels(command.labels, command.process)
            args = (command.name, command.incarnation, command.now_us, command.slots, labels)
            rows = yield Query(self._register, args)
            if command.offer is not None:
                yield Query(self._offer, (rows[0][0], command.offer))
        return int(rows[0][0])

    def beat(self, command: Beat) -> Steps[BeatResult]:
        """See ``Beat``."""
        args = (command.node, command.beat, command.now_us, command.offer)
        rows = yield Query(self._beat, args, standalone=self._running is None)
        alive = bool(rows)
        if alive and self._running is not None:
            rows = yield Query(self._running, (command.node,))
        running = [
            NodeExecution(row[0], row[1], CancelRequest(row[2]), row[3]) for row in rows if alive and row[0] is not None
        ]
        return BeatResult(alive=alive, running=running)

    def stop(self, command: StopNode) -> Steps[None]:
        """See ``StopNode``."""
        yield Query(self._stop, (command.node, command.now_us))
        yield Query(self._release_outbox, (command.node,))
