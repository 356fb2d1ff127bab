"""Generates text. Bad: each token runs the model over all tokens so far. Good: keys and values are
kept. A step is a token."""

import torch
from decoder import Decoder, FixedCache
from twin import Twin


def main():
    run = Twin("kv.disabled", steps=60)
    model = Decoder(run.pick(32, 1024), run.pick(2, 16), run.pick(2, 8))
    model.to(run.device, run.pick(torch.float32, torch.bfloat16)).eval()
    ids = torch.randint(0, 1000, (run.pick(2, 8), run.pick(16, 1024)), device=run.device)
    cache = None if run.has("kv.disabled") else FixedCache(ids.shape[1] + run.steps + 1)
    with torch.inference_mode():
        token = model(ids, cache).argmax(-1, keepdim=True)
        while True:
            ids = torch.cat((ids, token), dim=1)
            token = model(ids if cache is None else token, cache).argmax(-1, keepdim=True)
            if run.step():
                break


if __name__ == "__main__":
    main()
