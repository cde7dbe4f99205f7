"""Artifact directories on this computer: read, verified, sealed, and built."""
