"""Figures of the report: inline SVG, drawn from the report's own data and nothing else."""
