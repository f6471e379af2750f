"""Webhooks: options, request, client, response, and the guard that judges addresses.

Other kinds of targets belong in packages of their own.
"""
