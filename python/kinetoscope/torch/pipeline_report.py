"""The report of profile_training_pipeline as a dict, and as files in output_dir."""

import contextlib
import json
import os

from kinetoscope._engine import advise


def recommendations(data_stats, profile_summary, performance_summary):
    """Sentences that such figures allow; any of the three may be None."""
    data, profile = data_stats or {}, profile_summary or {}
    memory = (performance_summary or {}).get("memory") or {}
    figures = {
        "batches": data.get("total_batches"),
        "batch_s": data.get("avg_loading_time"),
        "transform_s": data.get("avg_preprocessing_time"),
        "workers": data.get("num_workers"),
        "total_s": profile.get("total_time"),
        "device_s": profile.get("cuda_time"),
        "memory_percent": memory.get("mean"),
    }
    known = {name: float(value) for name, value in figures.items() if value is not None}
    return [sentence for _, sentence in advise(**known)]


def of_findings(suggested):
    """Sentences of what ModelOptimizer suggests."""
    return [f"{each['title']}: {each['fix']}" for each in suggested if each["fix"]]


def save(folder, report, monitor):
    """Writes report.json, summary.txt, optimizations.json and a plot of the monitor. OSError."""
    with open(os.path.join(folder, "report.json"), "w", encoding="utf-8") as file:
        json.dump(report, file, indent=2, allow_nan=False)
        file.write("\n")
    with open(os.path.join(folder, "optimizations.json"), "w", encoding="utf-8") as file:
        json.dump(report["model_optimizations"], file, indent=2)
        file.write("\n")
    with open(os.path.join(folder, "summary.txt"), "w", encoding="utf-8") as file:
        file.write(summary_text(report))
    with contextlib.suppress(RuntimeError):  # nothing was monitored
        monitor.plot_metrics(os.path.join(folder, "performance.png"))


def summary_text(report):
    """Some lines for people."""
    lines = [f"steps           {report['steps']}, loss: {report['loss']}"]
    if report["step_times"]:
        lines.append(f"a step          {report['step_times']['mean']:.4g} s without a profiler")
    model, data = report["model_profiling"], report["data_loading"]
    if model is not None:
        lines.append(f"recorded        {model['total_time']:.4g} s, GPU {model['cuda_time']:.4g} s")
        for row in model["top_operations"][:5]:
            name, seconds, calls = row["name"], row["cpu_time"], row["calls"]
            lines.append(f"  {name}: {seconds:.4g} s in {calls} calls")
    if data is not None:
        load = data["avg_loading_time"] + data["avg_preprocessing_time"]
        lines.append(f"a batch         {load:.4g} s to load, {data['throughput']:.4g} a second")
    lines += [f"- {sentence}" for sentence in report["recommendations"]]
    return "\n".join(lines) + "\n"
