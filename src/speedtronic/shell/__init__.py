"""Reads the world, calls pure, writes the world."""
