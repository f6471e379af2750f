"""Schedules: when a job is due, for every kind of schedule, with parsing and descriptions.

From the inside out:

* ``timezones``: time zones as tables of offsets.
* ``cron``, ``interval``, ``random_interval``, ``iso8601``, ``once``, ``plugins``, ``union``: the rules, each with one
  essential method, ``next_us``.
* ``exclusions``, ``schedule``: dates a schedule leaves out, and the value that every caller holds.
* ``parser``, ``cron_parser``, ``words``: from text to a schedule.
* ``describe``, ``describe_cron``, ``canonical``, ``cron_format``, ``durations``: from a schedule to text.
* ``dst``, ``surprises``: the effect of clock changes, and readings that may surprise.
* ``occurrences``: counts of instants in bounded time.

Decisions about due instants belong in ``core.planner``.
"""
