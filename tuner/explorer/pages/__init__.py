"""What is on each page, from data to Dash components."""
