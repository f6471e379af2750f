"""Settings in the store: numbered versions, namespaces and gate profiles.

Import from the modules.
"""
