"""Scores texts. Bad: one text at a time. Good: all of a request at once. A step is a request."""

import torch
from inference_grad import Scorer
from torch.profiler import record_function
from twin import Twin


def main():
    run = Twin("inference.unbatched", steps=40)
    model = Scorer(run.pick(64, 512), run.pick(1, 6)).to(run.device).eval()
    texts = torch.randint(0, 1000, (run.pick(8, 32), 32), device=run.device)
    with torch.inference_mode():
        while True:
            with record_function("request"):
                if run.has("inference.unbatched"):
                    scores = torch.cat([model(texts[i : i + 1]) for i in range(len(texts))])
                else:
                    scores = model(texts)
                scores.cpu()
            if run.step():
                break


if __name__ == "__main__":
    main()
