"""The source of truth: commands in, results out. Other layers see only ``contract`` and ``commands``.

SQL and everything particular to an engine belongs in ``sql``; decisions belong in ``chronos.core``.
"""
