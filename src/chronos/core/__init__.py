"""Pure decisions and values: jobs, executions and the rules about them.

Nothing here does I/O, reads a clock or draws a random number: time, ids and randomness are arguments. ``schedule``
computes when a job is due, ``planner`` finds due and missed instants, ``admission_policy`` decides admission, and
``settle`` decides what follows an outcome. Code that needs I/O, a clock or randomness belongs in a layer above.
"""
