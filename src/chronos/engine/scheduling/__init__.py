"""From the clock to an admitted execution: look-ahead, admission, recovery.

Running the work belongs in ``execution``.
"""
