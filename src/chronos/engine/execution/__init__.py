"""From a claim to a settled execution: slots, attempts, records.

When work is due belongs in ``scheduling``; what a target does belongs in ``chronos.runners``.
"""
