"""Building a release and checking what is in it; `python -m tests.release` is `make release`."""
