"""What a host is like when it runs a trial: read back, stored, and compared in words."""
