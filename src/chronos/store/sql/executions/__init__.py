"""Steps for executions and the gates of their jobs: admission, claim, settlement.

Job definitions belong in ``jobs``.
"""
