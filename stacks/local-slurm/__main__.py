import pulumi

from runcrate_iac import Cluster, read_spec

config = pulumi.Config()
spec = read_spec(
    "cluster.yaml",
    name=config.get("name"),
    nodes=config.get_int("nodes"),
    machine=config.get_object("machine"),
)
cluster = Cluster(spec.pop("name"), spec)

pulumi.export("price_per_hour_usd", cluster.price_per_hour)
pulumi.export("login", pulumi.Output.concat("ssh -F ", cluster.ssh_config, " node-0"))
