"""Experiments: what is measured (data only), and the figures that are pure functions of the rows."""
