"""The PostgreSQL engine: connections, hot statements, partitions.

Statements that both engines run belong in ``sql``.
"""
