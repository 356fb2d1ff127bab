"""SEOConfig: all settings of the engine in one place."""

from dataclasses import dataclass

from .profiling_switches import ProfilingSwitches


@dataclass
class SEOConfig(ProfilingSwitches):
    """Sizes fit a CPU: a training takes some seconds.

    model_name: "distilbert" or "bert", made from a configuration with the sizes below; or a folder
    with a saved model and its tokenizer. device: "auto", "cpu", "cuda". early_stopping_patience:
    epochs without a better validation loss before training ends; 0: never. checkpoint_dir: where
    each epoch leaves a checkpoint; None: nowhere. profile_training: whether train() records itself
    as the switches say.
    """

    model_name: str = "distilbert"
    vocab_size: int = 800
    hidden_size: int = 64
    num_layers: int = 2
    num_heads: int = 4
    max_length: int = 192

    seed: int = 0
    device: str = "auto"
    num_epochs: int = 6
    batch_size: int = 16
    num_workers: int = 0  # pages are tokens already when training begins: no work for workers
    learning_rate: float = 1e-3
    warmup_share: float = 0.1
    weight_decay: float = 0.01
    gradient_norm_max: float = 1.0
    early_stopping_patience: int = 3
    early_stopping_delta: float = 1e-3
    checkpoint_dir: str | None = None

    tokenize_inline: bool = (
        False  # a fault on purpose: each batch is tokenised when it is trained on
    )
    profile_training: bool = False
