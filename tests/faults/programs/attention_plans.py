"""Generates text. Bad: cuDNN's attention makes a plan for each new length. Good: flash attention,
which needs none. A step is a token."""

import torch
from decoder import Decoder, FixedCache
from twin import Twin


def main():
    run = Twin("cudnn.retuning", steps=60)
    size = run.pick(32, 2048), run.pick(2, 16), run.pick(2, 8)
    model = Decoder(*size, any_kernel=run.has("cudnn.retuning"))
    model.to(run.device, run.pick(torch.float32, torch.bfloat16)).eval()
    prompt = torch.randint(0, 1000, (run.pick(2, 16), run.pick(16, 512)), device=run.device)
    cache = FixedCache(prompt.shape[1] + run.steps + 1)
    with torch.inference_mode():
        token = model(prompt, cache).argmax(-1, keepdim=True)
        while True:
            token = model(token, cache).argmax(-1, keepdim=True)
            if run.step():
                break


if __name__ == "__main__":
    main()
