"""Generates text. Bad: keys and values are copied for each token. Good: they have their room from
the start. A step is a token."""

import torch
from decoder import Decoder, FixedCache, GrowingCache
from twin import Twin


def main():
    run = Twin("kv.concat", steps=60)
    model = Decoder(run.pick(32, 2048), run.pick(2, 16), run.pick(2, 8))
    model.to(run.device, run.pick(torch.float32, torch.bfloat16)).eval()
    prompt = torch.randint(0, 1000, (run.pick(2, 32), run.pick(16, 4096)), device=run.device)
    length = prompt.shape[1] + run.steps + 1
    cache = GrowingCache() if run.has("kv.concat") else FixedCache(length)
    with torch.inference_mode():
        token = model(prompt, cache).argmax(-1, keepdim=True)
        while True:
            token = model(token, cache).argmax(-1, keepdim=True)
            if run.step():
                break


if __name__ == "__main__":
    main()
