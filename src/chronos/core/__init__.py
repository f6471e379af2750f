"""The pure heart: schedules, records and decisions. Nothing here can look at the world.

Schedules, from the inside out:

* ``calendar``, ``zones``: time as whole numbers, time zones as tables of offsets.
* ``cron``, ``every``, ``iso8601``, ``once``: the rules, each with one essential method, ``next_us``. A cron's text is
  read by ``cron_text`` and written by ``cron_format``.
* ``exclude``, ``schedule``: what surrounds a rule, and the value that everyone else holds.
* ``parse``, ``words``: from text to a schedule. ``describe``, ``describe_cron``, ``amounts``: back into words.
* ``oddities``: what changes of the clocks do to a schedule.

The other modules are about jobs: their definitions, their records, and what is decided about them.
"""
