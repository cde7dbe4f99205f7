"""A small model trained by DeepSpeed on all nodes: each process has its own data, and all end with the same weights."""

from __future__ import annotations

import socket

import deepspeed
import torch

SETTINGS = {
    "train_micro_batch_size_per_gpu": 16,
    "optimizer": {"type": "SGD", "params": {"lr": 0.1}},
    "zero_optimization": {"stage": 0},
}
STEPS = 20

deepspeed.init_distributed(dist_backend="nccl" if torch.cuda.is_available() else "gloo")
rank, size = torch.distributed.get_rank(), torch.distributed.get_world_size()
print(f"rank {rank} of {size} on {socket.gethostname()}", flush=True)

model = torch.nn.Linear(8, 1)
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=SETTINGS)
torch.manual_seed(rank)
target = torch.arange(8, dtype=torch.float32, device=engine.device)
for _ in range(STEPS):
    batch = torch.randn(16, 8, device=engine.device)
    loss = torch.nn.functional.mse_loss(engine(batch).squeeze(1), batch @ target)
    engine.backward(loss)
    engine.step()

weights = engine.module.weight.detach().clone()
torch.distributed.all_reduce(weights)
if not torch.allclose(weights / size, engine.module.weight, atol=1e-5):
    message = f"the weights of rank {rank} are not those of the others"
    raise SystemExit(message)
if rank == 0:
    print(f"{size} processes trained one model for {STEPS} steps; loss {loss.item():.3f}")
