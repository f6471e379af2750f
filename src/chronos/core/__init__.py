"""Pure decisions and values: jobs, executions, and what is decided about them.

Nothing here does I/O, reads a clock or draws a random number: time, ids and randomness are arguments. ``schedule``
says when a job is due; ``planner`` what is due or was missed; ``policy`` what is admitted; ``settle`` what follows an
outcome. Whatever needs the outside world belongs in a layer above.
"""
