from kinetoscope.debug.model_performance import (
    profile_model_performance as profile_model_performance,
)
from kinetoscope.debug.session import add_metric as add_metric
from kinetoscope.debug.session import debugging as debugging
from kinetoscope.debug.session import disable_debugging as disable_debugging
from kinetoscope.debug.session import enable_debugging as enable_debugging
from kinetoscope.debug.session import get_debugging_status as get_debugging_status
from kinetoscope.debug.session import note as note
from kinetoscope.debug.session import remove_metric as remove_metric
from kinetoscope.debug.switches import SWITCHES as SWITCHES
