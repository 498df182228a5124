"""Whether what was tuned in one context is good in another."""
