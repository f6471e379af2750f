"""The store: commands in, results out. Other layers import only ``contract`` and ``commands``.

SQL and everything specific to one engine belongs in ``sql``; decisions belong in ``chronos.core``.
"""
