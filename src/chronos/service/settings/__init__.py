"""Use cases about the levels of settings: effective settings of jobs, and the defaults of servers.

The settings as JSON belong in ``serializers``.
"""
