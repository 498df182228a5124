"""Machine files from measurements of a real host, or from published curves: `tiertune calibrate`."""
