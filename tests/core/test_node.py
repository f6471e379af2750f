"""HeartbeatWatch: when a node counts as silent for one observer."""

from chronos.core.node import HeartbeatWatch, Node

TIMEOUT_S = 3.0


class Observer:
    """Observes one node; ``sees`` returns whether it is silent."""

    def __init__(self) -> None:
        self.watch = HeartbeatWatch(timeout_s=TIMEOUT_S, heartbeat_s=1.0, pause_s=1.0)

    def sees(self, beat: int, requested_s: float, responded_s: float | None = None) -> bool:
        node = Node(number=7, name="seen", incarnation=b"", beat=beat, started_us=0, beat_us=0)
        return bool(
            self.watch.observe(
                [node], requested_s=requested_s, responded_s=requested_s if responded_s is None else responded_s
            )
        )


def test_a_node_whose_beat_does_not_change_for_the_timeout_is_silent() -> None:
    observer = Observer()
    assert [observer.sees(5, at_s) for at_s in (0, 1, 2, 3)] == [False, False, False, True]


def test_a_node_whose_beat_changes_is_alive() -> None:
    observer = Observer()
    assert not any(observer.sees(beat, 0.7 * beat) for beat in range(20))
    assert observer.watch.beating_nodes == {7}


def test_a_beat_counts_from_the_first_response_that_shows_it() -> None:
    """A slow response may show a beat from just before it arrived."""
    observer = Observer()
    observer.sees(4, 0)
    observer.sees(5, 1, 2.4)
    assert [observer.sees(5, at_s) for at_s in (3.4, 4.4, 5.3, 5.4)] == [False, False, False, True]


def test_a_beat_is_unchanged_until_the_last_request() -> None:
    observer = Observer()
    assert not any(observer.sees(5, at_s) for at_s in (0, 1, 2))
    assert not observer.sees(5, 2.9, 3.4)
    assert observer.sees(5, 4)


def test_a_slow_response_restarts_the_watch() -> None:
    observer = Observer()
    observer.sees(5, 0)
    assert not observer.sees(5, 1, 9)
    assert [observer.sees(5, at_s) for at_s in (10, 11, 12)] == [False, False, True]


def test_a_long_pause_between_reads_restarts_the_watch() -> None:
    observer = Observer()
    assert not any(observer.sees(5, at_s) for at_s in (0, 1, 2))
    assert [observer.sees(5, at_s) for at_s in (10, 11, 12, 13)] == [False, False, False, True]
    assert observer.watch.beating_nodes == frozenset()


def test_other_store_reads_keep_the_watch_alive() -> None:
    observer = Observer()
    assert not any(observer.sees(5, at_s) for at_s in (0, 1))
    for at_s in (2.0, 2.8, 3.5):
        observer.watch.note_store_read(at_s)
    assert observer.sees(5, 4)


def test_late_store_reads_restart_the_watch() -> None:
    observer = Observer()
    assert not any(observer.sees(5, at_s) for at_s in (0, 1))
    for at_s in (2.0, 5.0, 5.5):
        observer.watch.note_store_read(at_s)
    assert not observer.sees(5, 6)
