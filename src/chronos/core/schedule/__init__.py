"""When a job is due: every kind of schedule, how it is read and how it is described.

From the inside out:

* ``timezones``: time zones as tables of offsets.
* ``cron``, ``interval``, ``iso8601``, ``once``, ``plugins``: the rules, each with one essential method, ``next_us``.
* ``exclusions``, ``schedule``: what surrounds a rule, and the value that every caller holds.
* ``parser``, ``cron_parser``, ``words``: from text to a schedule.
* ``describe``, ``describe_cron``, ``canonical``, ``cron_format``, ``durations``: from a schedule to text.
* ``dst``, ``occurrences``: what clock changes do to a schedule, and bounded counts of its instants.

What a job does with its instants belongs in ``core.planner``.
"""
