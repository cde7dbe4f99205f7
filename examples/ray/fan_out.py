"""A hundred tasks over all nodes of a Ray cluster; then one with a GPU on every node. Prints what ran where.

runcrate-iac ssh NAME -L 8265:node-0:8265 -N &
ray job submit --address http://127.0.0.1:8265 --working-dir examples/ray -- python fan_out.py
"""

import time
from collections import Counter

import ray


@ray.remote(num_cpus=0.1)
def simulate(seed: int) -> tuple[str, float]:
    """A tenth of a second of work on some node."""
    until, value = time.monotonic() + 0.1, float(seed)
    while time.monotonic() < until:
        value = (value * 16807) % 2147483647
    return ray.util.get_node_ip_address(), value


@ray.remote(num_cpus=0, num_gpus=1, scheduling_strategy="SPREAD")
def with_a_gpu() -> str:
    """Which GPU this task has; it is held for a moment, so that the next task goes to another node."""
    time.sleep(2)
    return f"{ray.util.get_node_ip_address()} has GPU {ray.get_runtime_context().get_accelerator_ids()['GPU'][0]}"


ray.init()
nodes = [node for node in ray.nodes() if node["Alive"]]
print(f"{len(nodes)} nodes, {ray.cluster_resources().get('GPU', 0):.0f} GPUs")
ran = Counter(address for address, _ in ray.get([simulate.remote(seed) for seed in range(100)]))
for address, count in sorted(ran.items()):
    print(f"{address} ran {count} tasks")
for line in sorted(ray.get([with_a_gpu.remote() for _ in nodes])):
    print(line)
