"""Targets: the table of device facts, the simulated device, and the isolated workers that a target runs in."""
