"""The cascade of settings: origins of values, numbers of levels, profiles of gates.

The settings themselves, and how levels are merged, belong in ``core.config``.
"""
