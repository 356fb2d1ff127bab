"""profile_model_performance: operators and times of some batches, by one call."""

from kinetoscope.config import ProfilingConfig


def profile_model_performance(
    dataloader, num_batches=10, *, model, loss_fn=None, optimizer=None, config=None
):
    """CodeProfiler.profile_training_pipeline over the first batches of a loader: its report, after
    which all is as it was before. `config`: a ProfilingConfig, by default one that writes nothing.
    """
    from kinetoscope.torch.code_profiler import CodeProfiler

    profiler = CodeProfiler(config or ProfilingConfig(save_profiles=False, with_stack=False))
    return profiler.profile_training_pipeline(model, dataloader, num_batches, loss_fn, optimizer)
