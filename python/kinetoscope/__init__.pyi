from kinetoscope import categories as categories
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

__version__: str

def step() -> None: ...
