"""Runners: one small class for each kind of target. ``contract`` says what they promise."""
