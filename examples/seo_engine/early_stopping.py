"""EarlyStopping: ends a training when the validation loss has not become better for a while."""

from typing import Any


class EarlyStopping:
    """`patience`: epochs in a row that may pass without a loss at least `delta` below the best."""

    def __init__(self, patience: int, delta: float = 0.0) -> None:
        if patience < 1:
            raise ValueError(f"patience is at least 1, not {patience}")
        self.patience = patience
        self.delta = delta
        self.best = float("inf")
        self.epochs_without = 0

    @property
    def should_stop(self) -> bool:
        """Whether patience is at its end."""
        return self.epochs_without >= self.patience

    def update(self, loss: float) -> bool:
        """Takes the loss of one more epoch, and says whether to stop. A NaN is no improvement."""
        if loss < self.best - self.delta:
            self.best = loss
            self.epochs_without = 0
        else:
            self.epochs_without += 1
        return self.should_stop

    def state_dict(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {"best": self.best, "epochs_without": self.epochs_without}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from a checkpoint."""
        self.best = state["best"]
        self.epochs_without = state["epochs_without"]
