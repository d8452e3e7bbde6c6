"""Maths that two agents share."""
