"""The fault programs: which faults each has, and what of it must be recorded to see them."""

from dataclasses import dataclass

WINDOW = "6:1:6"
# The report names a fault by one of these ids too, when it is the same time.
ALSO = {
    "input.tokenize_inline": ("host.python_gap",),
    "batch.too_small": ("launch.bound",),
    "compile.graph_breaks": ("compile.graphs_skipped", "launch.bound"),
}
# These save memory, or spare a failure, and are not held against the clock.
RISKS = ("memory.growth", "inference.grad_enabled")


@dataclass
class Program:
    name: str
    faults: dict  # id -> cause, or ""
    window: str = WINDOW
    steps: int = 0  # of a recorded run; 0: what the window needs
    needs_gpu: bool = False
    threads: int = 1  # OMP_NUM_THREADS; 0: as torch thinks
    step_mark: str = ""  # annotation around a step
    ranks: int = 1  # processes, each with a device of its own; on the CPU they share it

    @property
    def recorded_steps(self):
        wait, warmup, active = (int(part) for part in self.window.split(":"))
        return self.steps or wait + warmup + active + 28  # stacks, and steps timed behind it

    def command(self, python, path):
        """The words that start the program, before its own options."""
        if self.ranks == 1:
            return [python, str(path)]
        launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
        return [python, *launcher, str(self.ranks), str(path)]


def on_cpu(name, fault, cause="", **more):
    return Program(name, {fault: cause}, **more)


def on_gpu(name, fault, **more):
    return Program(name, {fault: ""}, needs_gpu=True, **more)


PROGRAMS = (
    on_cpu("input_storage", "input.starved", "storage"),
    on_cpu("input_decode", "input.starved", "decode"),
    on_cpu("input_collate", "input.starved", "collate"),
    on_cpu("input_ipc", "input.starved", "ipc"),
    on_cpu("input_worker_start", "input.starved", "worker_start", window="9:1:10"),
    on_cpu("python_gap_metrics", "host.python_gap"),
    on_cpu("python_gap_logging", "host.python_gap"),
    on_cpu("memory_growth", "memory.growth", window="6:1:12"),
    on_cpu("inference_grad", "inference.grad_enabled"),
    on_cpu("oversubscribed", "cpu.oversubscribed", threads=0),
    on_cpu("recompiles", "compile.recompiles"),
    on_cpu("tokenize_inline", "input.tokenize_inline"),
    # The step with stacks, two behind the window, is one of the long ones.
    on_cpu("periodic_checkpoint", "host.periodic_stall", window="6:1:28"),
    on_cpu("periodic_evaluation", "host.periodic_stall", window="6:1:27"),
    Program(
        "many_on_cpu",
        {"input.starved": "storage", "host.python_gap": "", "memory.growth": ""},
        window="6:1:12",
    ),
    on_gpu("sync_loss", "sync.host"),
    on_gpu("launch_cells", "launch.bound"),
    on_gpu("launch_compiled", "launch.bound"),
    on_gpu("fp32_products", "precision.fp32_matmul"),
    on_gpu("pageable_copies", "copy.pageable"),
    on_gpu("small_copies", "copy.many_small"),
    on_gpu("round_trip", "device.round_trip"),
    on_gpu("layout_convolutions", "layout.transposes"),
    on_gpu("attention_by_hand", "attention.materialized"),
    on_gpu("attention_backend", "attention.backend"),
    on_gpu("optimizer_loop", "optimizer.unfused"),
    on_gpu("batch_small", "batch.too_small"),
    on_gpu("cudnn_retuning", "cudnn.retuning"),
    on_gpu("allocator_churn", "memory.allocator_churn"),
    on_gpu("misaligned_vocabulary", "matmul.misaligned"),
    on_gpu("graphs_skipped", "compile.graph_breaks"),
    on_gpu("graphs_not_taken", "compile.graphs_skipped"),
    on_gpu("pointwise_chain", "fusion.pointwise"),
    on_gpu("logits_loss", "loss.logits"),
    on_gpu("cast_churn", "precision.cast_churn"),
    on_gpu("padded_batches", "input.padding"),
    on_gpu("attention_plans", "cudnn.retuning"),
    on_gpu("kv_concat", "kv.concat"),
    on_gpu("kv_disabled", "kv.disabled"),
    on_gpu("unbatched", "inference.unbatched", step_mark="request"),
    on_gpu("serve_gap", "serve.host_gap"),
    on_gpu("fsdp_gather", "fsdp.exposed_gather", ranks=2),
    Program(
        "many_on_gpu",
        {"copy.pageable": "", "sync.host": "", "optimizer.unfused": ""},
        needs_gpu=True,
    ),
)
