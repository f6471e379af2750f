"""From a claim to a settled execution: slots, attempts, records.

Schedules and due times belong in ``scheduling``, the work of a target in ``chronos.runners``.
"""
