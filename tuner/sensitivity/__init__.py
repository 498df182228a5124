"""Whether a conclusion stays over what the model does not know for sure: `tiertune sensitivity`."""
