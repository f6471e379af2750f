"""Checkpoints of a SQLite file: copies the write-ahead log (WAL) into the file when the log is long enough.

A checkpoint copies each page once, even if the log has it many times. New jobs change pages all over the file, so a
large file gets a longer log between checkpoints.

A separate thread copies while the writer continues. SQLite restarts the log only after all of it was copied, and the
thread never gets there while commits arrive continuously. So when the log is long and few pages are left, the writer
copies these itself.
"""

from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path

import apsw

from chronos.store.sql.sqlite.connection import connect_reader

_PAGE_BYTES = 4096
_MIN_COPY_PAGES, _MAX_COPY_PAGES = 4_000, 32_000  # length of a copy: a quarter of the file, within these limits
# A log as long as this many copies should restart: the writer copies the rest if few pages are left.
_RESTART_COPIES = 3
_FORCED_RESTART_COPIES = 2 * _RESTART_COPIES  # a log this long restarts now: the writer copies all pages that are left
_MAX_WRITER_PAGES = 4_000  # "few pages": copying them takes tens of milliseconds
_MAX_WRITER_COMMITS = 2  # the pages of this many commits are "few" too: the thread never catches up with the last ones


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
        if pages < _MIN_COPY_PAGES:
            self._copied = 0
            return apsw.SQLITE_OK
        copy_pages = min(max(_MIN_COPY_PAGES, self._file_pages() // 4), _MAX_COPY_PAGES)
        if pages >= _FORCED_RESTART_COPIES * copy_pages and self._copying is not None:
            wait([self._copying])  # only one connection can copy at a time
        if self._copying is not None and not self._copying.done():
            return apsw.SQLITE_OK
        if pages < self._copied:
            self._copied = 0  # the log has restarted
        left = pages - self._copied
        max_writer_pages = max(_MAX_WRITER_PAGES, _MAX_WRITER_COMMITS * added)
        if pages >= _FORCED_RESTART_COPIES * copy_pages or (
            pages >= _RESTART_COPIES * copy_pages and left <= max_writer_pages
        ):
            self._copy(writer)
        elif left >= copy_pages or pages >= _RESTART_COPIES * copy_pages:
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
