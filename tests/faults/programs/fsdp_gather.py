"""Sharded training on several devices; start it by torchrun. Bad: the whole model is one unit, so
that nothing is computed until all of it is there. Good: each block is a unit, gathered while the
one before it computes; blocks compute for longer than the host needs to start one."""

import os

import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from twin import Twin, leave


def main():
    run = Twin("fsdp.exposed_gather", steps=30)
    distributed.init_process_group(run.pick("gloo", "nccl"))
    if run.is_gpu:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    mesh = init_device_mesh(run.device, (distributed.get_world_size(),))
    width = run.pick(64, 8192)
    blocks = [
        nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
        for _ in range(run.pick(2, 6))
    ]
    model = nn.Sequential(*blocks).to(run.device)
    if not run.has("fsdp.exposed_gather"):
        for block in blocks:
            fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batch = torch.randn(run.pick(4, 6144), width, device=run.device)
    while True:
        with torch.autocast(run.device, dtype=torch.bfloat16):
            loss = model(batch).float().square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if run.step():
            break
    distributed.barrier()  # gloo may abort a rank whose peer is gone
    distributed.destroy_process_group()
    leave()


if __name__ == "__main__":
    main()
