"""The SQLite engine: the file, the writer thread, the hot path.

Statements that both engines run belong in ``sql``.
"""
