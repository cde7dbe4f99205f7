"""The engine around a cluster, and the Pulumi engine under it."""
