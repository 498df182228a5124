"""The gallery that comes with tiertune; data only."""
