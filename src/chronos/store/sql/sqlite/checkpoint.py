"""Checkpoints of a SQLite file: when the write-ahead log (WAL) is copied into the file, and by which thread.

A page that was written many times is copied once, so a large file may have a longer log: new jobs touch pages all over
it. A thread of its own copies, beside the writer. But the log restarts only when all of it is copied, which never
happens while commits arrive continuously. So when the log is long and few pages are left, the writer copies them.
"""

from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path

import apsw

from chronos.store.sql.sqlite.connection import connect_reader

_PAGE_BYTES = 4096
_PAGES_MIN, _PAGES_MAX = 4_000, 32_000  # a copy takes a quarter of the file's pages, within these limits
_RESTART_FACTOR = 3  # a log of this many copies should restart
_BLOCKING_RESTART_FACTOR = 2 * _RESTART_FACTOR  # a log of this many copies restarts now, and the writer waits
_MAX_WRITER_COPY_PAGES = 4_000  # takes tens of milliseconds
_MAX_WRITER_COPY_COMMITS = 2  # or so many commits' pages: the thread never catches up with the last commits


class Checkpointer:
    """Copies the WAL of one file when it is long enough."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="chronos-sqlite-checkpoint")
        self._reader: apsw.Connection | None = None
        self._copying: Future[None] | None = None
        self._copied = 0  # pages copied since the log restarted
        self._pages = 0  # pages of the log after the last commit

    def close(self) -> None:
        """Wait for a copy that is running."""
        self._executor.shutdown(wait=True)
        if self._reader is not None:
            self._reader.close()

    def copy_log_after_commit(self, writer: apsw.Connection, _: str, pages: int) -> int:
        """Called by the writer after each commit. An error here does not undo the commit."""
        added, self._pages = pages - self._pages, pages  # negative after a restart
        if pages < _PAGES_MIN:
            self._copied = 0
            return apsw.SQLITE_OK
        copy_pages = min(max(_PAGES_MIN, self._file_pages() // 4), _PAGES_MAX)
        if pages >= _BLOCKING_RESTART_FACTOR * copy_pages and self._copying is not None:
            wait([self._copying])  # only one connection can copy at a time
        if self._copying is not None and not self._copying.done():
            return apsw.SQLITE_OK
        if pages < self._copied:
            self._copied = 0  # the log has restarted
        left = pages - self._copied
        max_writer_pages = max(_MAX_WRITER_COPY_PAGES, _MAX_WRITER_COPY_COMMITS * added)
        if pages >= _BLOCKING_RESTART_FACTOR * copy_pages or (
            pages >= _RESTART_FACTOR * copy_pages and left <= max_writer_pages
        ):
            self._copy(writer)
        elif left >= copy_pages or pages >= _RESTART_FACTOR * copy_pages:
            self._copying = self._executor.submit(self._copy_on_thread)
        return apsw.SQLITE_OK

    def _file_pages(self) -> int:
        try:
            return self._path.stat().st_size // _PAGE_BYTES
        except OSError:
            return 0  # the file was moved; ``FileMoveCheck`` reports it

    def _copy_on_thread(self) -> None:
        if self._reader is None:
            self._reader = connect_reader(self._path)
        self._copy(self._reader)

    def _copy(self, connection: apsw.Connection) -> None:
        with suppress(apsw.Error):  # another process copies, or the disk is full: retried after a later commit
            _, self._copied = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
