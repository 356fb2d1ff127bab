"""Electric potential of random charges on a grid: conjugate gradients on the five-point stencil."""

import argparse
import time

import torch
from torch import nn


class PotentialSolver(nn.Module):
    """Solves -laplace(u) = charge with u = 0 outside, from a zero start."""

    def __init__(self, side, iterations, tolerance, patient):
        super().__init__()
        self.side = side
        self.iterations = iterations
        self.tolerance = tolerance
        self.patient = patient
        self.register_buffer("diagonal", torch.full((side, side), 4.0))

    def stencil(self, field):
        result = self.diagonal * field
        result[1:] -= field[:-1]
        result[:-1] -= field[1:]
        result[:, 1:] -= field[:, :-1]
        result[:, :-1] -= field[:, 1:]
        return result

    def forward(self, charge):
        if self.patient:
            return self.solve_patiently(charge)
        return self.solve(charge)

    def solve(self, charge):
        potential = torch.zeros_like(charge)
        residual = charge.clone()
        direction = residual.clone()
        energy = torch.dot(residual.view(-1), residual.view(-1)).item()
        limit = self.tolerance**2 * energy
        for _ in range(self.iterations):
            pushed = self.stencil(direction)
            alpha = energy / torch.dot(direction.view(-1), pushed.view(-1)).item()
            potential.add_(direction, alpha=alpha)
            residual.add_(pushed, alpha=-alpha)
            new_energy = torch.dot(residual.view(-1), residual.view(-1)).item()
            if new_energy < limit:
                break
            direction.mul_(new_energy / energy).add_(residual)
            energy = new_energy
        return potential

    def solve_patiently(self, charge):
        potential = torch.zeros_like(charge)
        residual = charge.clone()
        direction = residual.clone()
        energy = torch.dot(residual.view(-1), residual.view(-1))
        limit = self.tolerance**2 * energy
        for turn in range(self.iterations):
            pushed = self.stencil(direction)
            alpha = energy / torch.dot(direction.view(-1), pushed.view(-1))
            potential.addcmul_(direction, alpha)
            residual.addcmul_(pushed, -alpha)
            new_energy = torch.dot(residual.view(-1), residual.view(-1))
            if turn % 50 == 49 and bool(new_energy < limit):
                break
            direction.mul_(new_energy / energy).add_(residual)
            energy = new_energy
        return potential


def scatter_charges(side, count, generator):
    grid = torch.zeros(side, side)
    rows = torch.randint(0, side, (count,), generator=generator)
    columns = torch.randint(0, side, (count,), generator=generator)
    grid[rows, columns] = torch.randn(count, generator=generator)
    return grid


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    twin = parser.add_mutually_exclusive_group(required=True)
    twin.add_argument("--bad", action="store_true")
    twin.add_argument("--good", action="store_true")
    parser.add_argument("--device", choices=["cpu", "cuda"])
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()

    device = args.device or ("cuda" if torch.cuda.is_available() else "cpu")
    side, iterations = (2048, 150) if device == "cuda" else (128, 60)
    generator = torch.Generator().manual_seed(11)
    scenes = [scatter_charges(side, 400, generator).to(device) for _ in range(4)]
    solver = PotentialSolver(side, iterations, 1e-5, args.good).to(device)

    warm = min(4, args.steps // 2)
    start = time.perf_counter()
    with torch.no_grad():
        for step in range(args.steps):
            if step == warm:
                if device == "cuda":
                    torch.cuda.synchronize()
                start = time.perf_counter()
            potential = solver(scenes[step % len(scenes)])
    if device == "cuda":
        torch.cuda.synchronize()
    spent = time.perf_counter() - start
    print(f"largest potential {potential.abs().max().item():.5f}")
    print(f"step_ms {1000 * spent / (args.steps - warm):.3f}")


if __name__ == "__main__":
    main()
