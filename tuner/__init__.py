"""The tuner: campaigns, the loop, the journal, statistics and the command line."""
