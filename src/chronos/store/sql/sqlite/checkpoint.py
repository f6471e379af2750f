"""The write-ahead log of a SQLite file: when it is copied into the file, and by whom.

Pages that were written again and again are copied once, so the log of a large file may be longer: many new jobs touch
pages all over it. Copying happens beside the writer, on a thread of its own. But a log begins anew only when all of it
is copied, which never comes true while commits pour in: when it is long, and max_writer_pages is left, the writer does the rest.
"""

from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path

import apsw

from chronos.store.sql.sqlite.connection import connect_reader

_PAGE_BYTES = 4096
_PAGES_MIN, _PAGES_MAX = 4_000, 32_000  # of the log that are copied at a time: a quarter of the file, within these
_RESTART_FACTOR = 3  # times as many, and the log is to begin anew
_BLOCKING_RESTART_FACTOR = 2 * _RESTART_FACTOR  # and the writer waits for that
_MAX_WRITER_COPY_PAGES = 4_000  # pages that the writer copies in some tens of milliseconds
_MAX_WRITER_COPY_COMMITS = (
    2  # whose pages are max_writer_pages, too, as what is copied beside them never catches up with the last ones
)


class Checkpointer:
    """The log of one file, as its writer sees it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="chronos-sqlite-checkpoint")
        self._reader: apsw.Connection | None = None
        self._copying: Future[None] | None = None
        self._copied = 0  # pages from the beginning of the log
        self._pages = 0  # of the log after the last commit

    def close(self) -> None:
        """Wait for what is being copied."""
        self._thread.shutdown(wait=True)
        if self._reader is not None:
            self._reader.close()

    def copy_log_after_commit(self, writer: apsw.Connection, _: str, pages: int) -> int:
        """Called by the writer after each commit, which stands whatever becomes of this."""
        added, self._pages = pages - self._pages, pages  # less than none when it has begun anew
        if pages < _PAGES_MIN:
            self._copied = 0
            return apsw.SQLITE_OK
        copy_pages = min(max(_PAGES_MIN, self._file_pages() // 4), _PAGES_MAX)
        if pages >= _BLOCKING_RESTART_FACTOR * copy_pages and self._copying is not None:
            wait([self._copying])  # only one can copy at a time
        if self._copying is not None and not self._copying.done():
            return apsw.SQLITE_OK
        if pages < self._copied:
            self._copied = 0  # it has begun anew
        left = pages - self._copied
        max_writer_pages = max(_MAX_WRITER_COPY_PAGES, _MAX_WRITER_COPY_COMMITS * added)
        if pages >= _BLOCKING_RESTART_FACTOR * copy_pages or (
            pages >= _RESTART_FACTOR * copy_pages and left <= max_writer_pages
        ):
            self._copy(writer)
        elif left >= copy_pages or pages >= _RESTART_FACTOR * copy_pages:
            self._copying = self._thread.submit(self._copy_on_thread)
        return apsw.SQLITE_OK

    def _file_pages(self) -> int:
        try:
            return self._path.stat().st_size // _PAGE_BYTES
        except OSError:
            return 0  # somebody has moved it away

    def _copy_on_thread(self) -> None:
        if self._reader is None:
            self._reader = connect_reader(self._path)
        self._copy(self._reader)

    def _copy(self, connection: apsw.Connection) -> None:
        with suppress(apsw.Error):  # another process copies, or the disk is full: a later commit asks again
            _, self._copied = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
