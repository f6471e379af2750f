"""A server process: its configuration, the parts it is composed of, and its start and stop.

The commands that start it belong in ``chronos.cli``; composing store and engine belongs in ``chronos.assembly``.
"""
