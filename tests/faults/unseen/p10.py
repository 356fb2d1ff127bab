"""Progressive GAN stage: the new resolution fades in while both networks train; generator
compiled."""

import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

LATENT, WIDTH = 64, 64


class Generator(nn.Module):
    def __init__(self, tensor_alpha):
        super().__init__()
        self.start = nn.Linear(LATENT, WIDTH * 4 * 4)
        self.c1 = nn.Conv2d(WIDTH, WIDTH, 3, padding=1)
        self.c2 = nn.Conv2d(WIDTH, WIDTH // 2, 3, padding=1)
        self.c3 = nn.Conv2d(WIDTH // 2, WIDTH // 2, 3, padding=1)
        self.rgb_old = nn.Conv2d(WIDTH // 2, 3, 1)
        self.rgb_new = nn.Conv2d(WIDTH // 2, 3, 1)
        self.fade_steps = 20
        if tensor_alpha:
            self.register_buffer("iteration", torch.zeros(()))
        else:
            self.iteration = 0

    def set_iteration(self, value):
        if torch.is_tensor(self.iteration):
            self.iteration.fill_(value)
        else:
            self.iteration = value

    def forward(self, z):
        x = F.leaky_relu(self.start(z), 0.2).view(-1, WIDTH, 4, 4)
        x = F.leaky_relu(self.c1(F.interpolate(x, scale_factor=2)), 0.2)
        x = F.leaky_relu(self.c2(F.interpolate(x, scale_factor=2)), 0.2)
        old = F.interpolate(self.rgb_old(x), scale_factor=2)
        new = self.rgb_new(F.leaky_relu(self.c3(F.interpolate(x, scale_factor=2)), 0.2))
        alpha = self.iteration / self.fade_steps
        return torch.tanh(alpha * new + (1 - alpha) * old)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 32, 3, 2, 1),
            nn.LeakyReLU(0.2),
            nn.Conv2d(32, 64, 3, 2, 1),
            nn.LeakyReLU(0.2),
            nn.Conv2d(64, 64, 3, 2, 1),
            nn.LeakyReLU(0.2),
            nn.Flatten(),
            nn.Linear(64 * 4 * 4, 1),
        )

    def forward(self, x):
        return self.net(x).squeeze(1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--bad", action="store_true")
    ap.add_argument("--good", action="store_true")
    args = ap.parse_args()
    torch.manual_seed(0)
    real = torch.rand(256, 3, 32, 32) * 2 - 1
    gen, critic = Generator(tensor_alpha=args.good), Critic()
    fast_gen = torch.compile(gen)
    g_opt = torch.optim.Adam(gen.parameters(), lr=2e-4, betas=(0.0, 0.99), fused=True)
    d_opt = torch.optim.Adam(critic.parameters(), lr=2e-4, betas=(0.0, 0.99), fused=True)
    start = time.perf_counter()
    for step in range(args.steps):
        if step == 10:
            start = time.perf_counter()
        gen.set_iteration(min(gen.fade_steps, step // 6))
        lo = (step * 32) % 256
        fake = fast_gen(torch.randn(32, LATENT))
        d_loss = (
            F.softplus(-critic(real[lo : lo + 32])).mean()
            + F.softplus(critic(fake.detach())).mean()
        )
        d_opt.zero_grad(set_to_none=True)
        d_loss.backward()
        d_opt.step()
        g_loss = F.softplus(-critic(fake)).mean()
        g_opt.zero_grad(set_to_none=True)
        g_loss.backward()
        g_opt.step()
    took = time.perf_counter() - start
    print(f"d {d_loss.item():.4f} g {g_loss.item():.4f}")
    print(f"step_ms {took * 1000 / max(1, args.steps - 10):.2f}")


if __name__ == "__main__":
    main()
