"""The PostgreSQL engine: connections, hot path, partitions.

Statements that both engines run belong in ``sql``.
"""
