"""Pulumi components: the cluster, and machines of this computer."""
