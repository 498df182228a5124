"""Search spaces: which knobs of a system a campaign searches; one YAML file each, and their loader."""
