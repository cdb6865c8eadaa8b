"""Figures, never tests: each script prints what it measured, and the ratios, in one run."""
