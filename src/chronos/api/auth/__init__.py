"""Credentials under attack: client addresses, the lock-out, the queue for password hashes, the trace of refusals."""
