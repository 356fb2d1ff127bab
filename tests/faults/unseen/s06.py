"""Teach a small policy to hold a swinging rod upright: clipped policy updates on many rods."""

import argparse
import resource
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Normal, kl_divergence


class Rods:
    """Many rods, each with an angle and a speed; the action is a push."""

    def __init__(self, count, device):
        self.angle = (torch.rand(count, device=device) * 2 - 1) * 3.14
        self.speed = torch.rand(count, device=device) * 2 - 1

    def look(self):
        return torch.stack([self.angle.cos(), self.angle.sin(), self.speed], dim=1)

    def push(self, force):
        force = force.clamp(-2, 2)
        price = self.angle**2 + 0.1 * self.speed**2 + 0.001 * force**2
        self.speed = (self.speed + 0.05 * (15 * self.angle.sin() + 3 * force)).clamp(-8, 8)
        turned = self.angle + 0.05 * self.speed
        self.angle = torch.remainder(turned + 3.14159, 6.28318) - 3.14159
        return -0.1 * price


class ActorCritic(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Linear(3, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh()
        )
        self.mean = nn.Linear(width, 1)
        self.value = nn.Linear(width, 1)
        self.log_spread = nn.Parameter(torch.zeros(1))

    def forward(self, seen):
        body = self.trunk(seen)
        policy = Normal(self.mean(body).squeeze(-1), self.log_spread.exp(), validate_args=False)
        return policy, self.value(body).squeeze(-1)


@torch.no_grad()
def play(model, rods, horizon):
    seen, pushes, log_probs, rewards, values = [], [], [], [], []
    for _ in range(horizon):
        view = rods.look()
        policy, value = model(view)
        force = policy.sample()
        seen.append(view)
        pushes.append(force)
        log_probs.append(policy.log_prob(force))
        values.append(value)
        rewards.append(rods.push(force))
    ahead = model(rods.look())[1]
    returns = []
    for reward in reversed(rewards):
        ahead = reward + 0.97 * ahead
        returns.insert(0, ahead)
    return [torch.cat(part) for part in (seen, pushes, log_probs, values, returns)]


def main():
    parser = argparse.ArgumentParser()
    twin = parser.add_mutually_exclusive_group(required=True)
    twin.add_argument("--bad", action="store_true")
    twin.add_argument("--good", action="store_true")
    parser.add_argument("--steps", type=int, default=80)
    args = parser.parse_args()

    torch.manual_seed(8)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    count, horizon, width = (4096, 16, 512) if device.type == "cuda" else (96, 10, 256)
    model = ActorCritic(width).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    rods = Rods(count, device)

    drift, spent = [], []
    for step in range(args.steps):
        begin = time.perf_counter()
        seen, pushes, old_log_probs, old_values, returns = play(model, rods, horizon)
        gain = returns - old_values
        gain = (gain - gain.mean()) / (gain.std() + 1e-6)
        with torch.no_grad():
            before, _ = model(seen)
        for _ in range(2):
            policy, value = model(seen)
            ratio = (policy.log_prob(pushes) - old_log_probs).exp()
            surrogate = torch.minimum(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
            loss = 0.5 * F.mse_loss(value, returns) - surrogate
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        moved = kl_divergence(before, model(seen)[0]).mean()
        if args.bad:
            drift.append(moved)
        else:
            drift.append(moved.detach())
        if step % 20 == 19:
            recent = torch.stack(drift[-20:]).mean().item()
            reward = returns.mean().item()
            print(f"update {step + 1} return {reward:.3f} drift {recent:.5f}", flush=True)
        spent.append(1000 * (time.perf_counter() - begin))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"median {statistics.median(spent):.2f} ms mean {statistics.mean(spent):.2f} ms")
    print(f"peak resident {peak:.0f} MiB")


if __name__ == "__main__":
    main()
