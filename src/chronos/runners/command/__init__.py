"""Commands: the runner, and the supervisor process that starts, watches and kills them.

Worker processes for Python functions belong in ``python``.
"""
