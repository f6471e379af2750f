"""The store in SQL: statements that SQLite and PostgreSQL share, and the two engines that run them.

What only one engine has belongs in ``sqlite`` or ``postgres``.
"""
