"""The server: its configuration, what it is composed of, and its life as a process."""
