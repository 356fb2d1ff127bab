"""Numbers that a program adds to the records of its steps."""


class Metrics:
    """`writer`: a SummaryWriter of TensorBoard, or what has its add_scalar; None: no such."""

    def __init__(self, session, writer=None):
        self._session = session
        self._writer = writer
        self._metrics = {}

    def add(self, name, function, every):
        self._metrics[name] = function, every

    def remove(self, name):
        del self._metrics[name]

    def step(self):
        step = self._session.step
        for name, (function, every) in list(self._metrics.items()):
            if step % every == 0:
                self._measure(name, function, step)
        if self._writer is not None:
            self._softly(self._write_own, step)

    def _measure(self, name, function, step):
        try:
            value = function(step)
            values = value if isinstance(value, dict) else {name: value}
            values = {str(key): float(item) for key, item in values.items()}
        except Exception as failure:
            self._drop(name, failure)
            return
        self._session.write("metric", {"name": name, **values})
        if self._writer is not None:
            self._softly(self._write, values, step)

    def _drop(self, name, failure):
        self._metrics.pop(name, None)
        text = f"metric {name} is taken away, it failed: {type(failure).__name__}: {failure}"
        self._session.write("failure", {"metric": name, "failure": str(failure)}, text, level=30)

    def _write(self, values, step):
        for key, value in values.items():
            self._writer.add_scalar(f"kinetoscope/{key}", value, step)

    def _write_own(self, step):
        latest = self._session.latest
        own = {key: latest.get(key) for key in ("loss", "norm", "scale")}
        self._write({key: value for key, value in own.items() if value is not None}, step)

    def _softly(self, write, *args):
        try:
            write(*args)
        except Exception as failure:
            self._writer = None
            self._session.write("failure", {"tensorboard": str(failure)})
