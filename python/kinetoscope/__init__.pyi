from kinetoscope import categories as categories
from kinetoscope._engine import TraceError as TraceError
from kinetoscope._kscope import FunctionProfiler as FunctionProfiler
from kinetoscope._kscope import RecordingError as RecordingError
from kinetoscope._kscope import StackSampler as StackSampler
from kinetoscope._kscope import SystemMonitor as SystemMonitor
from kinetoscope._kscope import counter as counter
from kinetoscope._kscope import is_recording as is_recording
from kinetoscope._kscope import marker as marker
from kinetoscope._kscope import profile_operation as profile_operation
from kinetoscope._kscope import recording_path as recording_path
from kinetoscope._kscope import stop_recording as stop_recording
from kinetoscope._monitor import PerformanceMonitor as PerformanceMonitor
from kinetoscope._recording import start_recording as start_recording
from kinetoscope.comparison import Comparison as Comparison
from kinetoscope.config import ProfilingConfig as ProfilingConfig
from kinetoscope.config import create_profiling_config as create_profiling_config
from kinetoscope.debug.model_performance import (
    profile_model_performance as profile_model_performance,
)
from kinetoscope.debug.session import disable_debugging as disable_debugging
from kinetoscope.debug.session import enable_debugging as enable_debugging
from kinetoscope.debug.session import get_debugging_status as get_debugging_status
from kinetoscope.report import Report as Report
from kinetoscope.report import open as open
from kinetoscope.torch.code_profiler import CodeProfiler as CodeProfiler
from kinetoscope.torch.compile_profile import profile_compilation as profile_compilation
from kinetoscope.torch.data_loading_profiler import DataLoadingProfiler as DataLoadingProfiler
from kinetoscope.torch.device_placement import profile_device_placement as profile_device_placement
from kinetoscope.torch.memory_profiler import TorchMemoryProfiler as TorchMemoryProfiler
from kinetoscope.torch.memory_profiler import memory_profile as memory_profile
from kinetoscope.torch.model_optimizer import ModelOptimizer as ModelOptimizer
from kinetoscope.torch.profile_context import handler as handler
from kinetoscope.torch.profile_context import profile as profile
from kinetoscope.torch.profiling_hooks import TorchProfilingHooks as TorchProfilingHooks
from kinetoscope.torch.torch_profiler import PyTorchProfiler as PyTorchProfiler
from kinetoscope.tune.batch_search import largest_batch as largest_batch
from kinetoscope.tune.checkpoint_sweep import sweep_checkpointing as sweep_checkpointing
from kinetoscope.tune.combination import tune_model as tune_model
from kinetoscope.tune.function_comparison import compare as compare
from kinetoscope.tune.loader_sweep import sweep_dataloader as sweep_dataloader
from kinetoscope.tune.model_sweeps import sweep_attention as sweep_attention
from kinetoscope.tune.model_sweeps import sweep_channels_last as sweep_channels_last
from kinetoscope.tune.model_sweeps import sweep_compile as sweep_compile
from kinetoscope.tune.model_sweeps import sweep_optimizer as sweep_optimizer
from kinetoscope.tune.model_sweeps import sweep_precision as sweep_precision
from kinetoscope.tune.model_sweeps import sweep_quantization as sweep_quantization
from kinetoscope.tune.model_sweeps import sweep_threads as sweep_threads

__version__: str

def step() -> None: ...
def load_ipython_extension(shell: object) -> None: ...
def unload_ipython_extension(shell: object) -> None: ...
