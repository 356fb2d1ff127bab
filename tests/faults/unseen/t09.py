"""Offline Q-learning for a swinging arm: a replay memory of numpy transitions, a small network."""

import argparse
import random
import time
from collections import deque, namedtuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

Transition = namedtuple("Transition", "state action reward following done")
FORCES = np.linspace(-1.0, 1.0, 5)


class Arm:
    """A chain of pendulums; the force acts on the first."""

    def __init__(self, joints, seed):
        self.random = np.random.default_rng(seed)
        self.joints = joints
        self.reset()

    def reset(self):
        self.angle = self.random.uniform(-1, 1, self.joints)
        self.speed = np.zeros(self.joints)
        return self.look()

    def look(self):
        return np.concatenate([np.sin(self.angle), np.cos(self.angle), self.speed]).astype("f4")

    def push(self, action):
        pull = np.roll(self.angle, 1) - self.angle
        pull[0] = FORCES[action]
        self.speed = 0.99 * self.speed + 0.05 * (pull - np.sin(self.angle))
        self.angle = self.angle + 0.05 * self.speed
        return self.look(), float(np.cos(self.angle).mean()), bool(abs(self.speed).max() > 3)


def fill_memory(arm, count):
    memory = deque(maxlen=count)
    state = arm.reset()
    for _ in range(count):
        action = int(arm.random.integers(len(FORCES)))
        following, reward, done = arm.push(action)
        memory.append(Transition(state, action, reward, following, done))
        state = arm.reset() if done else following
    return memory


class Agent:
    def __init__(self, inputs, width, device, whole):
        self.device = device
        self.whole = whole
        self.online = self.network(inputs, width).to(device)
        self.target = self.network(inputs, width).to(device).requires_grad_(False)
        self.target.load_state_dict(self.online.state_dict())
        self.optimizer = torch.optim.Adam(self.online.parameters(), lr=1e-3, fused=True)

    @staticmethod
    def network(inputs, width):
        hidden = [nn.Linear(width, width), nn.ReLU()]
        return nn.Sequential(
            nn.Linear(inputs, width), nn.ReLU(), *hidden, nn.Linear(width, len(FORCES))
        )

    def gather(self, picked):
        columns = Transition(*zip(*picked, strict=True))
        kinds = Transition(*map(torch.as_tensor, picked[0]))
        if self.whole:
            arrays = [torch.from_numpy(np.asarray(column)) for column in columns]
            moved = [a.to(k.dtype).to(self.device) for a, k in zip(arrays, kinds, strict=True)]
            return Transition(*moved)
        return Transition(
            *[
                torch.stack([torch.as_tensor(value).to(self.device) for value in column])
                for column in columns
            ]
        )

    def learn(self, picked):
        batch = self.gather(picked)
        value = self.online(batch.state).gather(1, batch.action[:, None])[:, 0]
        with torch.no_grad():
            best = self.target(batch.following).amax(dim=1)
            goal = batch.reward + 0.98 * best * (~batch.done)
        loss = F.smooth_l1_loss(value, goal)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def main():
    parser = argparse.ArgumentParser()
    twin = parser.add_mutually_exclusive_group(required=True)
    twin.add_argument("--bad", action="store_true")
    twin.add_argument("--good", action="store_true")
    parser.add_argument("--device", choices=["cpu", "cuda"])
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()

    device = torch.device(args.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    cuda = device.type == "cuda"
    joints, width, batch = (16, 1024, 256) if cuda else (4, 32, 16)
    torch.manual_seed(6)
    dice = random.Random(6)
    memory = list(fill_memory(Arm(joints, 6), 4000 if cuda else 400))
    agent = Agent(3 * joints, width, device, whole=args.good)
    warm = min(6, args.steps // 2)
    for step in range(args.steps):
        if step == warm:
            if cuda:
                torch.cuda.synchronize()
            begin = time.perf_counter()
        loss = agent.learn(dice.sample(memory, batch))
        if step % 200 == 199:
            agent.target.load_state_dict(agent.online.state_dict())
    if cuda:
        torch.cuda.synchronize()
    spent = time.perf_counter() - begin
    print(f"loss {loss.item():.6f}")
    print(f"step_ms {1000 * spent / (args.steps - warm):.3f}")


if __name__ == "__main__":
    main()
