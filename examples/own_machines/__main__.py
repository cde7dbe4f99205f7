"""A cluster on machines that another resource of the same program made.

Here they are virtual machines of this computer; a server of any cloud does as well, and powers itself off if no cluster
joins it in time:

    server = hcloud.Server("n0", ..., user_data=Cluster.user_data(0))
    Machine(address=server.ipv4_address, user="root")

Destroying the stack makes the machines what they were before the join, then their own resources end them.
"""

import pulumi

from runcrate_iac import Cluster, LocalMachines

pool = LocalMachines("lab", nodes=2, machine={"gpus": 8})
cluster = Cluster("train", software="slurm", machines=pool.machines)

pulumi.export("login", pulumi.Output.concat("ssh -F ", cluster.ssh_config, " node-0"))
