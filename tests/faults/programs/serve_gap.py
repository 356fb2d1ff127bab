"""An engine that serves texts. Bad: between two iterations it looks at all requests in Python while
the device waits. Good: it does so while the device computes the next one."""

import torch
from decoder import Decoder, FixedCache
from twin import Twin

REQUESTS = 256


def schedule(requests, tokens):
    """Which request is where, what it said so far, and is it done?"""
    for request, token in zip(requests, tokens, strict=True):
        request["tokens"].append(token)
        request["text"] = " ".join(f"<{word % 97}>" for word in request["tokens"][-200:])
        request["is_done"] = token == 0 and request["text"].endswith("<0>")
    return sorted(requests, key=lambda request: (request["is_done"], len(request["text"])))


class Reader:
    """Hands tokens to the host without waiting for what the device was given after them."""

    def __init__(self, token):
        self.numbers = token.flatten().to("cpu", non_blocking=True)
        self.event = torch.cuda.Event() if token.is_cuda else None
        if self.event:
            self.event.record()

    def read(self):
        if self.event:
            self.event.synchronize()
        return self.numbers.tolist()


def main():
    run = Twin("serve.host_gap", steps=60)
    model = Decoder(run.pick(32, 2048), run.pick(2, 16), run.pick(2, 12))
    model.to(run.device, run.pick(torch.float32, torch.bfloat16)).eval()
    requests = [{"tokens": [], "text": "", "is_done": False} for _ in range(REQUESTS)]
    prompt = torch.randint(0, 1000, (REQUESTS, run.pick(4, 512)), device=run.device)
    cache = FixedCache(prompt.shape[1] + run.steps + 1)
    with torch.inference_mode():
        token = model(prompt, cache).argmax(-1, keepdim=True)
        while True:
            if run.has("serve.host_gap"):
                schedule(requests, token.flatten().tolist())
                token = model(token, cache).argmax(-1, keepdim=True)
            else:
                said = Reader(token)
                token = model(token, cache).argmax(-1, keepdim=True)
                schedule(requests, said.read())
            if run.step():
                break


if __name__ == "__main__":
    main()
