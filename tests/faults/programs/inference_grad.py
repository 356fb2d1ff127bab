"""Scores texts. Bad: records a graph that nobody uses. Good: in inference mode."""

import torch
from torch import nn
from twin import Twin


class Scorer(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.embed = nn.Embedding(1000, width)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, 1)

    def forward(self, ids):
        return self.head(self.encoder(self.embed(ids)).mean(1))


def main():
    run = Twin("inference.grad_enabled")
    torch.set_float32_matmul_precision("high")
    model = Scorer(run.pick(64, 512), run.pick(2, 6)).to(run.device).eval()
    texts = torch.randint(0, 1000, run.pick((16, 32), (256, 128)), device=run.device)
    while True:
        # planted: inference.grad_enabled
        with torch.inference_mode(not run.has("inference.grad_enabled")):
            scores = model(texts)
        scores.detach().cpu()
        if run.step():
            break


if __name__ == "__main__":
    main()
