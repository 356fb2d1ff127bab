"""profile_pipeline: the stages of a transformers pipeline apart."""

import contextlib

import kinetoscope
from kinetoscope._engine import summarize
from kinetoscope.hf import measuring
from kinetoscope.torch.state_guard import kept_random

_STAGES = ("preprocess", "forward", "postprocess")


def profile_pipeline(pipeline, inputs, config=None, *, runs=3, **options):
    """Calls a pipeline with its inputs some times, after one call that is not counted.

    inputs: as the pipeline takes them; of a generator, which gives them once, a list is made.
    pipeline: one of transformers, or the name of a task (`model`, `tokenizer` and so on of
    transformers.pipeline then go into `options`; loading is measured, too). options: for the call.

    {outputs (of the last call), load_time (s, None for one that was there), total_time (s, median
    of the calls), total_times, inputs, inputs_per_second, stages {preprocess, forward,
    postprocess: {time (s in a call, median), calls, share (of total_time)}}, other_time (s, median:
    batching, copies, iteration), memory_used (bytes by which the process grew)}. With
    profile_pipeline_operations off `stages` is empty and other_time None. Preprocessing in worker
    processes (num_workers) is not seen from here. The pipeline is as before.
    """
    config = measuring.config_or_default(config)
    load_time = None
    if isinstance(pipeline, str):
        pipeline, load_time, options = _load(pipeline, options)
    device = getattr(pipeline, "device", None) or measuring.device_of(pipeline.model)
    inputs = list(inputs) if hasattr(inputs, "__next__") else inputs
    before = measuring.resident_bytes()
    clock = _Stages(pipeline, device, config.profile_pipeline_operations)
    with clock, kept_random(), kinetoscope.profile_operation("pipeline", "pipeline"):
        _call(pipeline, inputs, options, device, clock)
        rows = [_call(pipeline, inputs, options, device, clock) for _ in range(max(runs, 1))]
    total = summarize([row["total"] for row in rows])["p50"]
    count = rows[-1]["inputs"]
    return {
        "outputs": rows[-1]["output"],
        "load_time": load_time,
        "total_time": total,
        "total_times": [row["total"] for row in rows],
        "inputs": count,
        "inputs_per_second": count / total,
        "stages": _stages(rows, total),
        "other_time": _other(rows),
        "memory_used": measuring.resident_bytes() - before,
    }


def _load(task, options):
    import transformers

    names = ("model", "config", "tokenizer", "feature_extractor", "image_processor", "device")
    given = {name: options.pop(name) for name in names if name in options}
    began_ns = measuring.perf_counter_ns()
    pipeline = transformers.pipeline(task, **given)
    return pipeline, measuring.seconds(began_ns, measuring.perf_counter_ns()), options


def _call(pipeline, inputs, options, device, clock):
    clock.restart()
    began_ns = measuring.now_ns(device)
    output = pipeline(inputs, **options)
    is_lazy = hasattr(output, "__next__")
    if is_lazy:
        output = list(output)  # of a data set: work is done as it is asked for
    total = measuring.seconds(began_ns, measuring.now_ns(device))
    count = len(output) if is_lazy else _count(inputs)
    return {"output": output, "total": total, "stages": clock.take(), "inputs": count}


def _count(inputs):
    return len(inputs) if isinstance(inputs, list | tuple) else 1


def _stages(rows, total):
    return {
        name: {
            "time": (time := summarize([row["stages"][name][0] for row in rows])["p50"]),
            "calls": rows[-1]["stages"][name][1],
            "share": time / total,
        }
        for name in rows[-1]["stages"]
    }


def _other(rows):
    if not rows[-1]["stages"]:
        return None
    others = [row["total"] - sum(time for time, _ in row["stages"].values()) for row in rows]
    return summarize(others)["p50"]


class _Stages(contextlib.ExitStack):
    """In the block the stages of a pipeline are timed; they are methods, which its instance covers
    as long."""

    def __init__(self, pipeline, device, is_on):
        super().__init__()
        self._pipeline = pipeline
        self._device = device
        self._names = _STAGES if is_on else ()
        self._times = {}

    def __enter__(self):
        for name in self._names:
            self._cover(name)
        return self

    def _cover(self, name):
        own = vars(self._pipeline).get(name)
        function = getattr(self._pipeline, name)
        region = kinetoscope.profile_operation(f"pipeline_{name}", "pipeline")

        def timed(*args, **kwargs):
            began_ns = measuring.now_ns(self._device)
            try:
                with region:
                    return function(*args, **kwargs)
            finally:
                entry = self._times.setdefault(name, [0, 0])
                entry[0] += measuring.now_ns(self._device) - began_ns
                entry[1] += 1

        setattr(self._pipeline, name, timed)
        self.callback(_uncover, self._pipeline, name, own)

    def restart(self):
        self._times = {}

    def take(self):
        times, self._times = self._times, {}
        zero = (0, 0)
        return {n: (times.get(n, zero)[0] / 1e9, times.get(n, zero)[1]) for n in self._names}


def _uncover(pipeline, name, own):
    if own is None:
        delattr(pipeline, name)
    else:
        setattr(pipeline, name, own)
