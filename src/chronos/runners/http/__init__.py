"""Webhooks: options, request, client, response, and the guard that checks addresses.

Other kinds of targets belong in their own packages.
"""
