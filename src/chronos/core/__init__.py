"""The pure heart: schedules, records and decisions. Nothing here can look at the world."""
