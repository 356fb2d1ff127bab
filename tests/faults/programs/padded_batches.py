"""Trains on texts of many lengths. Bad: all are padded to the longest there is. Good: those of like
length go together, and are padded to the longest of their batch."""

import torch
from torch import nn
from torch.utils.data import DataLoader
from twin import Twin


class Classifier(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.embed = nn.Embedding(1000, width, padding_idx=0)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, 2)

    def forward(self, input_ids, attention_mask):
        x = self.encoder(self.embed(input_ids), src_key_padding_mask=attention_mask == 0)
        return self.head(x[:, 0])


def main():
    run = Twin("input.padding", steps=40)
    batch_size, longest = run.pick(8, 32), run.pick(128, 512)
    count = batch_size * (run.steps + 1)
    lengths = [8 + (i * i * 7) % (longest // 4) for i in range(count)]
    lengths[::97] = [longest] * len(lengths[::97])
    is_bad = run.has("input.padding")
    texts = [torch.randint(1, 1000, (length,)) for length in lengths]
    if not is_bad:
        texts.sort(key=len)

    def collate(batch):
        room = longest if is_bad else max(len(text) for text in batch)
        ids = torch.zeros(len(batch), room, dtype=torch.long)
        for row, text in zip(ids, batch, strict=True):
            row[: len(text)] = text
        return {"input_ids": ids, "attention_mask": (ids != 0).long()}

    model = Classifier(run.pick(64, 512), run.pick(1, 6)).to(run.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for batch in DataLoader(texts, batch_size=batch_size, collate_fn=collate):
        on_device = {name: tensor.to(run.device) for name, tensor in batch.items()}
        loss = model(**on_device).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if run.step():
            break


if __name__ == "__main__":
    main()
