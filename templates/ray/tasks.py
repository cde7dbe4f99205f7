"""usage: tasks.py ADDRESS SECONDS. Run a task on every node of the cluster, with a GPU where one is free."""

import sys

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

address, seconds = sys.argv[1], float(sys.argv[2])
ray.init(address=address, log_to_driver=False, logging_level="ERROR")


@ray.remote(num_cpus=0)
def where() -> str:
    """The address of its node and the GPU that it has."""
    context = ray.get_runtime_context()
    return f"{ray.util.get_node_ip_address()} {','.join(context.get_accelerator_ids().get('GPU', [])) or '-'}"


free = ray._private.state.available_resources_per_node()  # noqa: SLF001 - what `ray status -v` shows
tasks = {}
for node in ray.nodes():
    if node["Alive"]:
        strategy = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        gpus = min(1, int(free.get(node["NodeID"], {}).get("GPU", 0)))
        tasks[where.options(scheduling_strategy=strategy, num_gpus=gpus).remote()] = node["NodeManagerAddress"]
done, _ = ray.wait(list(tasks), num_returns=len(tasks), timeout=seconds)
for task in done:
    try:
        print("task", ray.get(task))
    except ray.exceptions.RayError as problem:
        print("failed", tasks[task], " ".join(str(problem).split())[:200])
