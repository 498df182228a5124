"""Machine models: one YAML file each, and their loader."""
