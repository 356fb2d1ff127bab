"""Continue prompts with a GPT-2 from transformers (random weights), greedily, many at a time."""

import argparse
import time

import torch
from transformers import (
    GenerationConfig,
    GPT2Config,
    GPT2LMHeadModel,
    StoppingCriteria,
    StoppingCriteriaList,
)


class Stopwatch(StoppingCriteria):
    """Never stops anything; asked once a token, it starts the clock after the first few."""

    def __init__(self, device, warm):
        self.device = device
        self.warm = warm
        self.seen = 0
        self.begin = None

    def __call__(self, input_ids, scores, **kwargs):
        self.seen += 1
        if self.seen == self.warm:
            self.begin = self.now()
        return torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)

    def now(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()


def build_model(device, sizes):
    config = GPT2Config(
        vocab_size=sizes["vocab"],
        n_positions=1024,
        n_embd=sizes["width"],
        n_layer=sizes["layers"],
        n_head=sizes["heads"],
        bos_token_id=None,
        eos_token_id=None,
    )
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    return GPT2LMHeadModel(config).to(device, dtype).eval()


def settings(tokens):
    return GenerationConfig(
        do_sample=False,
        max_new_tokens=tokens,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=None,
    )


SIZES = {
    "cuda": {"vocab": 50304, "width": 1024, "layers": 16, "heads": 16, "batch": 48, "prompt": 640},
    "cpu": {"vocab": 500, "width": 32, "layers": 2, "heads": 2, "batch": 2, "prompt": 24},
}


def main():
    parser = argparse.ArgumentParser()
    twin = parser.add_mutually_exclusive_group(required=True)
    twin.add_argument("--bad", action="store_true")
    twin.add_argument("--good", action="store_true")
    parser.add_argument("--device", choices=["cpu", "cuda"])
    parser.add_argument("--steps", type=int, default=40, help="tokens to add to each prompt")
    args = parser.parse_args()

    device = torch.device(args.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    sizes = SIZES[device.type]
    torch.manual_seed(30)
    model = build_model(device, sizes)
    prompts = torch.randint(1, sizes["vocab"], (sizes["batch"], sizes["prompt"])).to(device)
    config = settings(args.steps)
    if args.bad:
        config.use_cache = False  # as in the fine-tuning script, which checkpoints its activations

    warm = max(1, min(4, args.steps // 2))
    watch = Stopwatch(device, warm)
    with torch.inference_mode():
        texts = model.generate(
            prompts,
            attention_mask=torch.ones_like(prompts),
            generation_config=config,
            stopping_criteria=StoppingCriteriaList([watch]),
        )
    spent = watch.now() - watch.begin
    added = texts[:, sizes["prompt"] :]
    print(f"{tuple(added.shape)} tokens, sum {int(added.sum())}")
    print(f"step_ms {1000 * spent / (args.steps - warm):.3f}")


if __name__ == "__main__":
    main()
