"""Link prediction on a graph of papers: two graph convolutions and a dot-product scorer."""

import argparse
import random
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn


class GraphConv(nn.Module):
    def __init__(self, width_in, width_out):
        super().__init__()
        self.own = nn.Linear(width_in, width_out)
        self.near = nn.Linear(width_in, width_out, bias=False)

    def forward(self, x, source, target, inverse_degree):
        sums = torch.zeros_like(x).index_add_(0, target, x.index_select(0, source))
        return self.own(x) + self.near(sums * inverse_degree)


class LinkModel(nn.Module):
    def __init__(self, nodes, width):
        super().__init__()
        self.start = nn.Parameter(torch.randn(nodes, width) * 0.1)
        self.one, self.two = GraphConv(width, width), GraphConv(width, width)

    def forward(self, source, target, inverse_degree):
        x = F.relu(self.one(self.start, source, target, inverse_degree))
        return self.two(x, source, target, inverse_degree)


def make_graph(nodes, edges, groups, seed):
    """Papers mostly cite papers of their own group."""
    draw = torch.Generator().manual_seed(seed)
    source = torch.randint(0, nodes, (edges,), generator=draw)
    shift = torch.randint(1, nodes // groups, (edges,), generator=draw) * groups
    target = (source + shift) % nodes
    return source, target


def pick_strangers(heads, nodes, known, rng):
    tails = []
    for head in heads * 3:
        tail = rng.randrange(nodes)
        while tail == head or (head, tail) in known:
            tail = rng.randrange(nodes)
        tails.append(tail)
    return torch.tensor(tails)


def draw_strangers(heads, nodes, keys):
    heads = heads.repeat(3)
    tails = torch.randint(0, nodes, heads.shape, device=heads.device)
    for _ in range(2):
        wanted = heads * nodes + tails
        place = torch.searchsorted(keys, wanted).clamp_(max=keys.shape[0] - 1)
        taken = (keys[place] == wanted) | (tails == heads)
        tails = torch.where(taken, torch.randint_like(tails, nodes), tails)
    return tails


def main():
    parser = argparse.ArgumentParser()
    twin = parser.add_mutually_exclusive_group(required=True)
    twin.add_argument("--bad", action="store_true")
    twin.add_argument("--good", action="store_true")
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()

    torch.manual_seed(13)
    rng = random.Random(13)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    cuda = device.type == "cuda"
    nodes, edges, width, batch = (60000, 600000, 256, 65536) if cuda else (1600, 8000, 16, 6000)
    heads_all, tails_all = make_graph(nodes, edges, 20, seed=6)
    known = set(zip(heads_all.tolist(), tails_all.tolist(), strict=True))
    keys = torch.unique(heads_all * nodes + tails_all).to(device)
    head_list = heads_all.tolist()
    heads_all, tails_all = heads_all.to(device), tails_all.to(device)
    degree = torch.zeros(nodes, device=device).index_add_(
        0, tails_all, torch.ones(edges, device=device)
    )
    inverse_degree = (1 / degree.clamp(min=1))[:, None]
    model = LinkModel(nodes, width).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, fused=True)

    spent = []
    for step in range(args.steps):
        begin = time.perf_counter()
        first = (step * batch) % (edges - batch)
        heads, tails = heads_all[first : first + batch], tails_all[first : first + batch]
        if args.bad:
            wrong = pick_strangers(head_list[first : first + batch], nodes, known, rng)
            wrong = wrong.to(device)
        else:
            wrong = draw_strangers(heads, nodes, keys)
        x = model(heads_all, tails_all, inverse_degree)
        anchor = x.index_select(0, heads)
        close = (anchor * x.index_select(0, tails)).sum(1)
        far = (anchor.repeat(3, 1) * x.index_select(0, wrong)).sum(1)
        loss = F.softplus(far - close.repeat(3)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 19:
            print(f"step {step + 1} loss {loss.item():.4f}", flush=True)
        spent.append(1000 * (time.perf_counter() - begin))
    print(f"median {statistics.median(spent):.2f} ms mean {statistics.mean(spent):.2f} ms")


if __name__ == "__main__":
    main()
