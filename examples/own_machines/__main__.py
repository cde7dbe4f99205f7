"""A cluster on machines that another resource of the same program made.

Here they are virtual machines of this computer; a server of any cloud does as well:
``Machine(address=server.ipv4_address, user="root")``.
"""

import pulumi

from runcrate_iac import Cluster, LocalMachines

pool = LocalMachines("lab", nodes=2, machine={"gpus": 8})
cluster = Cluster("train", software="slurm", machines=pool.machines)

pulumi.export("login", pulumi.Output.concat("ssh -F ", cluster.ssh_config, " node-0"))
