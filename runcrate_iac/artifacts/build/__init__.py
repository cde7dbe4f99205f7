"""Filling an artifact directory on a computer that reaches package registries."""
