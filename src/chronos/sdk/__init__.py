"""Chronos for Python programs: functions become jobs, and jobs are triggered, awaited and looked at.

``app`` is what users hold; ``declared`` what a program says about its jobs, before anything runs; ``runtime`` the store
and the engine behind it; ``home`` how calls from any thread or loop get there.
"""
