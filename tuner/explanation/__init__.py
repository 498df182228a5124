"""Why a tuned configuration is good: which knobs matter, what lies around it, how few changes suffice."""
