"""The demo: about 40 invented jobs with 30 days of history, on a server that keeps running them.

::

    jobs ──► history: the engine runs the jobs through 30 virtual days ──► a SQLite file ──► a server on that file
                          └────────── runner: what an attempt does, by behaviour ──────────┘

Nothing is sent or executed for these jobs: the runner invents durations, outputs and failures, the same in every demo.
Jobs that a user creates in the demo really run. What only invents data belongs here; what users may rely on does not.
"""
