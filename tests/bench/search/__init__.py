"""`make bench-search`: how far from the best known config each way of searching is, after how many trials."""
