"""Authentication and permissions: roles, passwords, API tokens, lockout and the record of denials.

Limits that apply to every client alike belong in ``api.rate_limits``.
"""
