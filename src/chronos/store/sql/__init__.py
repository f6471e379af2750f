"""The store in SQL: statements that SQLite and PostgreSQL share, and the two engines.

Code of one engine belongs in ``sqlite`` or ``postgres``.
"""
