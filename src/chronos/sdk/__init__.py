"""Chronos for Python programs: functions become jobs, and programs trigger and await their runs.

``app`` is the object that users hold; ``declarations`` has the jobs that a program declares; ``runtime`` the store and
the engine behind an app; ``home_loop`` leads calls from any thread or loop to them. What every interface shares belongs
in ``chronos.service``.
"""
