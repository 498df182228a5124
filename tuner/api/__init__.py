"""The Python face of the tuner: what commands do, as functions that return frames; `import tiertune` offers
them."""
