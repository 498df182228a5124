"""Workloads: one YAML file each, their loader, and the profiles recorded from them."""
