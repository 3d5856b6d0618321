"""Probes: what each tier does with a cell, the engine that runs them in isolated workers, and the judgement."""
