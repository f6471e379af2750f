"""The store in SQL: statements once, named; two small drivers (SQLite, PostgreSQL) run them."""
