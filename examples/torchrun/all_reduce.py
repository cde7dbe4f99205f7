"""Every process of a torchrun job says where it runs, and all of them sum a tensor over the network."""

from __future__ import annotations

import os
import socket
import time

import torch
import torch.distributed as dist

ELEMENTS = 4 * 2**20
ROUNDS = 5

gpu = torch.cuda.is_available()
dist.init_process_group("nccl" if gpu else "gloo")
rank, size = dist.get_rank(), dist.get_world_size()
device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if gpu else torch.device("cpu")
print(f"rank {rank} of {size} on {socket.gethostname()}: {dist.get_backend()}, {device}", flush=True)

tensor = torch.ones(ELEMENTS, device=device)
dist.all_reduce(tensor)
if tensor[0].item() != size:
    message = f"the sum over {size} processes is {tensor[0].item()}"
    raise SystemExit(message)

dist.barrier()
begun = time.monotonic()
for _ in range(ROUNDS):
    dist.all_reduce(tensor)
tensor[0].item()  # what a GPU has queued is done now
seconds = (time.monotonic() - begun) / ROUNDS
if rank == 0:
    print(f"{size} processes agree; {ELEMENTS * 4 / 2**20:.0f} MiB summed in {seconds * 1000:.0f} ms")
dist.destroy_process_group()
