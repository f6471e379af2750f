"""Steps for job definitions: save, delete, state, lists.

Executions and gates belong in ``executions``.
"""
