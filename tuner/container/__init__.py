"""Trials in containers of a Docker Engine of this machine, under limits that are read back from inside."""
