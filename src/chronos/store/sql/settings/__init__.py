"""Steps for the levels above jobs: numbered settings, namespaces, gate profiles.

Jobs belong in ``jobs``, gates and executions in ``executions``.
"""
