"""Nights: suites of campaigns that run by themselves, their history, and alarms over it."""
