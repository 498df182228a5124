"""Trials on this machine: whether it is fit, the program under tierd, and what it was like meanwhile."""
