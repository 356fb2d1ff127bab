"""Runs a program with our stack sampler on.

Use: sampled_program.py MODULE_FOLDER OUT_FOLDER RATE_HZ PROGRAM [WORD]...
"""

import runpy
import sys

sys.path.insert(0, sys.argv[1])

import _kscope_sampler  # noqa: E402

_kscope_sampler.start_recording(sys.argv[2])
sampler = _kscope_sampler.StackSampler(int(sys.argv[3]))
sys.argv = sys.argv[4:]
sampler.start()
runpy.run_path(sys.argv[0], run_name="__main__")
sampler.stop()
_kscope_sampler.stop_recording()
