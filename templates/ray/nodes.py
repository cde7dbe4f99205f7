"""usage: nodes.py URL SECONDS GPUS ADDRESS... What Ray's state API says of the nodes that are alive.

Once those of these addresses are, with so many GPUs each, or time is over.
"""

import json
import sys
import time
import urllib.error
import urllib.request

url, seconds, gpus, wanted = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), set(sys.argv[4:])
ALIVE = "filter_keys=state&filter_predicates=%3D&filter_values=ALIVE"
# No proxy is on the way to a node.
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
until = time.monotonic() + seconds
while True:
    nodes, error = dict[str, tuple[int, int]](), ""
    try:
        with opener.open(f"{url}/api/v0/nodes?detail=true&limit=10000&{ALIVE}", timeout=30) as answer:
            for node in json.load(answer)["data"]["result"]["result"]:
                has = node.get("resources_total") or {}
                nodes[node["node_ip"]] = int(has.get("CPU", 0)), int(has.get("GPU", 0))
    except (OSError, ValueError, KeyError, TypeError) as problem:
        error = f"no answer from the dashboard at {url}: {problem}"
    well = {address for address, (_, has) in nodes.items() if has == gpus}
    if well >= wanted or time.monotonic() > until:
        break
    time.sleep(0.5)
for address, (cpus, has) in nodes.items():
    print("node", address, cpus, has)
if error:
    print("error", error)
