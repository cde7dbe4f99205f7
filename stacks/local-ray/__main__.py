import pulumi

from runcrate_iac import Cluster, read_spec

spec = read_spec("cluster.yaml", name=pulumi.Config().get("name"))
cluster = Cluster(spec.pop("name"), spec)

pulumi.export("price_per_hour_usd", cluster.price_per_hour)
pulumi.export("login", pulumi.Output.concat("ssh -F ", cluster.ssh_config, " node-0"))
