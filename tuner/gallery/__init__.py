"""The gallery: tuned configurations of many contexts, and how far to trust one in another."""
