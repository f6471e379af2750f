"""The server process: its configuration, its parts, and its start and stop.

The commands that start it belong in ``chronos.cli``; composing store and engine belongs in ``chronos.assembly``.
"""
