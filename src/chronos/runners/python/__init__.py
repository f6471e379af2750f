"""Python functions: on the event loop, in threads and in worker processes.

Declaring functions as jobs belongs in ``chronos.sdk``.
"""
