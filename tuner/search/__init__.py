"""What a search does beside asking and running: constraints, early ends, and what is remembered of others."""
