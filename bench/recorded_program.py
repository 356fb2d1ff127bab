"""Runs a program with our stack sampler or our function profiler on, and records what it sees.

Use: recorded_program.py samples|functions OUT_FOLDER RATE_HZ PROGRAM [WORD]...
"""

import pathlib
import runpy
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))

import kinetoscope  # noqa: E402

kind, folder, rate = sys.argv[1:4]
sys.argv = sys.argv[4:]
kinetoscope.start_recording(folder)
profiler = (
    kinetoscope.FunctionProfiler() if kind == "functions" else kinetoscope.StackSampler(int(rate))
)
profiler.start()
runpy.run_path(sys.argv[0], run_name="__main__")
profiler.stop()
kinetoscope.stop_recording()
