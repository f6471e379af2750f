"""Chronos inside Python programs: functions become jobs, and programs trigger and await their runs.

``app`` is the object that users hold. ``declarations`` holds the jobs that a program declares, ``runtime`` the store
and the engine behind an app. ``home_loop`` carries calls from any thread or event loop to them. Logic that every
interface shares belongs in ``chronos.service``.
"""
