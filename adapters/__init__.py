"""One file per system family: knobs <-> native names and units, start, verify and undo."""
