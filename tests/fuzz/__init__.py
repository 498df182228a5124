"""Coverage-guided fuzzing of everything that reads files of other tools (`make fuzz`)."""
