"""Learn to balance poles: a policy gradient over many small worlds that are played in Python."""

import argparse
import math
import random
import time

import torch
import torch.nn as nn

WORLDS, TURNS = 1024, 6


class Pole:
    def __init__(self, rng):
        self.rng = rng
        self.reset()

    def reset(self):
        self.x, self.v = 0.0, 0.0
        self.angle, self.spin = self.rng.uniform(-0.05, 0.05), 0.0

    def step(self, push):
        force = 10.0 if push else -10.0
        sin, cos = math.sin(self.angle), math.cos(self.angle)
        pull = (force + 0.05 * self.spin * self.spin * sin) / 1.1
        turn = (9.8 * sin - cos * pull) / (0.5 * (4 / 3 - 0.1 * cos * cos / 1.1))
        drive = pull - 0.05 * turn * cos / 1.1
        self.x, self.v = self.x + 0.02 * self.v, self.v + 0.02 * drive
        self.angle, self.spin = self.angle + 0.02 * self.spin, self.spin + 0.02 * turn
        fell = abs(self.angle) > 0.21 or abs(self.x) > 2.4
        if fell:
            self.reset()
        return [self.x, self.v, self.angle, self.spin], 0.0 if fell else 1.0


class OneByOne:
    def __init__(self):
        rng = random.Random(0)
        self.poles = [Pole(rng) for _ in range(WORLDS)]

    def look(self):
        return torch.tensor([[p.x, p.v, p.angle, p.spin] for p in self.poles])

    def step(self, pushes):
        states, rewards = [], []
        for pole, push in zip(self.poles, pushes.tolist(), strict=True):
            state, reward = pole.step(push)
            states.append(state)
            rewards.append(reward)
        return torch.tensor(states), torch.tensor(rewards)


class AllAtOnce:
    def __init__(self):
        self.state = torch.zeros(WORLDS, 4)
        self.state[:, 2].uniform_(-0.05, 0.05)

    def look(self):
        return self.state

    def step(self, pushes):
        x, v, angle, spin = self.state.unbind(1)
        force = pushes.float() * 20 - 10
        sin, cos = angle.sin(), angle.cos()
        pull = (force + 0.05 * spin * spin * sin) / 1.1
        turn = (9.8 * sin - cos * pull) / (0.5 * (4 / 3 - 0.1 * cos * cos / 1.1))
        drive = pull - 0.05 * turn * cos / 1.1
        ahead = torch.stack([v, drive, spin, turn], 1)
        self.state = self.state + 0.02 * ahead
        fell = (self.state[:, 2].abs() > 0.21) | (self.state[:, 0].abs() > 2.4)
        self.state = torch.where(fell[:, None], torch.zeros_like(self.state), self.state)
        return self.state, (~fell).float()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--bad", action="store_true")
    ap.add_argument("--good", action="store_true")
    args = ap.parse_args()
    torch.manual_seed(0)
    policy = nn.Sequential(nn.Linear(4, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh())
    policy.append(nn.Linear(128, 2))
    opt = torch.optim.Adam(policy.parameters(), lr=3e-4, fused=True)
    worlds = AllAtOnce() if args.good else OneByOne()
    start = time.perf_counter()
    for step in range(args.steps):
        if step == 10:
            start = time.perf_counter()
        state, logs, rewards = worlds.look(), [], []
        for _ in range(TURNS):
            choice = torch.distributions.Categorical(logits=policy(state))
            pushes = choice.sample()
            logs.append(choice.log_prob(pushes))
            state, reward = worlds.step(pushes)
            rewards.append(reward)
        gains = torch.stack(rewards).flip(0).cumsum(0).flip(0)
        loss = -(torch.stack(logs) * (gains - gains.mean())).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    took = time.perf_counter() - start
    print(f"reward {torch.stack(rewards).mean().item():.3f}")
    print(f"step_ms {took * 1000 / max(1, args.steps - 10):.2f}")


if __name__ == "__main__":
    main()
