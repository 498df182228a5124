"""Figures of the pages: plotly, from plain data."""
