"""usage: nodes.py URL NODES SECONDS. What Ray's state API says of the nodes, once so many are alive or time is over."""

import json
import sys
import time
import urllib.error
import urllib.request

url, wanted, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
ALIVE = "filter_keys=state&filter_predicates=%3D&filter_values=ALIVE"
# No proxy is on the way to a node.
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
until = time.monotonic() + seconds
while True:
    nodes, error = [], ""
    try:
        with opener.open(f"{url}/api/v0/nodes?detail=true&limit=10000&{ALIVE}", timeout=30) as answer:
            nodes = json.load(answer)["data"]["result"]["result"]
    except (OSError, ValueError, KeyError, TypeError) as problem:
        error = f"no answer from the dashboard at {url}: {problem}"
    if len(nodes) >= wanted or time.monotonic() > until:
        break
    time.sleep(0.5)
for node in nodes:
    has = node.get("resources_total") or {}
    print("node", node["node_ip"], int(has.get("CPU", 0)), int(has.get("GPU", 0)))
if error:
    print("error", error)
