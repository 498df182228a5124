"""Published or own results as claims that a model is held to: `tiertune reproduce`."""
