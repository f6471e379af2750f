"""The SQLite engine: the file, the writer thread, hot statements.

Statements that both engines run belong in ``sql``.
"""
