"""What the faces share: job shapes and their aliases, create, update and apply, trigger, why, preview.

``shapes`` turns JSON into definitions and records into JSON; ``jobs`` keeps definitions; ``runs`` asks for executions
and looks at them; ``why`` explains. Nothing here runs a loop or speaks HTTP.
"""
