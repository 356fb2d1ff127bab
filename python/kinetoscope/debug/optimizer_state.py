"""Whether what an optimizer remembers can be right: looked at once, and after each load."""

import weakref

from kinetoscope.debug import first_bad


class OptimizerState:
    def __init__(self, session):
        self._session = session
        self._seen = weakref.WeakKeyDictionary()  # optimizer -> id of the state that was looked at

    def resumed(self, optimizer):
        self.step_begins(optimizer, None)

    def step_begins(self, optimizer, scaler):
        state = optimizer.state
        if not state or self._seen.get(optimizer) == id(state):
            return
        self._seen[optimizer] = id(state)  # loading makes another one
        for facts in _faults(optimizer):
            facts["parameter"] = self._session.name_of(facts["parameter"])
            facts["optimizer"] = type(optimizer).__name__
            text = f"state {facts['state']} of {facts['parameter']} in {facts['optimizer']}"
            text += f" {facts['why']}, before step {self._session.step + 1}"
            place = f"{facts['state']} {facts['parameter']}"
            self._session.incident("optimizer_state", place, facts, text)


def _faults(optimizer):
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            for key, value in optimizer.state.get(parameter, {}).items():
                why = _fault_of(key, value, parameter)
                if why is not None:
                    yield {"cause": "optimizer_state", "parameter": parameter, "state": key, **why}


def _fault_of(key, value, parameter):
    if not first_bad.is_float(value) or value.numel() == 0:
        return None
    found = first_bad.describe(value)
    if found is not None:
        return {"why": f"holds {found['nan']} NaN and {found['inf']} Inf", **found}
    if key in ("exp_avg_sq", "max_exp_avg_sq", "square_avg", "sum") and (value < 0).any():
        return {"why": "is a mean of squares and below 0"}
    if key in ("exp_avg", "momentum_buffer", "exp_avg_sq") and value.shape != parameter.shape:
        return {"why": f"has shape {list(value.shape)}, the parameter {list(parameter.shape)}"}
    return None
