"""Cases about the reads of lists and pages: jobs by status and run, runs, counts, days.

Cases about commands and about single records belong in ``chronos.testing.conformance``.
"""
