"""The cluster model: specs, plans, tables and money. Pure: no I/O, and nothing of the rest is imported."""
