"""Who a client is and what it may do: permissions, passwords, tokens, lock-out, denials.

Limits that hold for every client alike belong in ``api.rate_limits``.
"""
