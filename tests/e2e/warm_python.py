"""A Python that has imported torch already and is forked for each program: 3 s less for each.

Beyond that a program is as in a Python of its own: its words, folder, environment and descriptors,
the interpreter's own ending, a process that can be signalled. With KSCOPE_RUN our sitecustomize
runs, and the hooks are installed as at the end of `import torch`. Programs to which start-up
matters, or that start others, take a Python of their own.

Use: `WarmPython(command, folder, env)` in tests, a Popen as far as they need one. As a script this
file is the server: each connection brings one program with its two descriptors, and gets its number
and, once it has ended, how.
"""

import array
import atexit
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

HOOK = Path(__file__).resolve().parents[2] / "python/kinetoscope/inject/sitecustomize.py"
READY_S = 120


# ---------------------------------------------------------------- the tests' side


class WarmPython:
    """Runs `command`, a Python, its script and the script's words."""

    _server = None

    def __init__(self, command, folder, env):
        self.args = command
        self.returncode = None
        out, err = os.pipe(), os.pipe()
        order = {"words": command[1:], "folder": str(folder), "env": env}
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.connect(self._address(env))
        descriptors = array.array("i", [out[1], err[1]])
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)]
        self._connection.sendmsg([b"#"], rights)
        self._connection.sendall(json.dumps(order).encode() + b"\n")
        os.close(out[1]), os.close(err[1])
        self.stdout = os.fdopen(out[0], encoding="utf-8")
        self.stderr = os.fdopen(err[0], encoding="utf-8")
        self._answers = self._connection.makefile()
        self.pid = int(self._answers.readline())

    @classmethod
    def _address(cls, env):
        if cls._server is None:
            folder = tempfile.TemporaryDirectory(prefix="warm-python-")
            address = os.path.join(folder.name, "socket")
            kept = {name: value for name, value in env.items() if not name.startswith("KSCOPE_")}
            kept.pop("PYTHONPATH", None)
            server = subprocess.Popen(
                [sys.executable, __file__, address], env=kept, stdout=subprocess.PIPE, text=True
            )
            atexit.register(lambda: (server.kill(), server.wait(), folder.cleanup()))
            assert server.stdout.readline() == "ready\n"
            cls._server = address
        return cls._server

    def send_signal(self, number):
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout):
        words = {}

        def read(name, file):
            with file:
                words[name] = file.read()

        readers = [
            threading.Thread(target=read, args=(name, getattr(self, name)), daemon=True)
            for name in ("stdout", "stderr")
        ]
        for reader in readers:
            reader.start()
        self._connection.settimeout(timeout)
        self.returncode = int(self._answers.readline())
        for reader in readers:
            reader.join(timeout)
        self._answers.close()
        self._connection.close()
        return words["stdout"], words["stderr"]


# ---------------------------------------------------------------- the server's side


def serve(address):
    """Returns in the process of a program, with what it is to run."""
    import torch._dynamo  # noqa: F401 - what the first optimizer of a program imports

    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    gc.collect()
    gc.freeze()  # else each program that ends would walk through all of torch: a second
    print("ready", flush=True)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            return start_program(connection)
        connection.close()


def start_program(connection):
    """Forks the program, and stays behind to say how it ends."""
    _, descriptors, _, _ = socket.recv_fds(connection, 1, 2)
    order = json.loads(connection.makefile().readline())
    pid = os.fork()
    if pid == 0:
        connection.close()
        for source, target in zip(descriptors, (1, 2), strict=True):
            os.dup2(source, target)
            os.close(source)
        return order
    for source in (*descriptors, 1, 2):
        os.close(source)
    connection.sendall(f"{pid}\n".encode())
    _, status = os.waitpid(pid, 0)
    connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def become(order):
    """What the interpreter and `import torch` would have done; gives code and its namespace."""
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["env"])
    script = order["words"][0]
    sys.argv = order["words"]
    sys.path[0] = os.path.dirname(script)
    if os.environ.get("KSCOPE_RUN") == "1":
        finder_count = len(sys.meta_path)
        exec(compile(HOOK.read_text(), HOOK, "exec"), {"__file__": str(HOOK)})
        assert len(sys.meta_path) == finder_count + 1
        sys.meta_path[0]._install(sys.modules["torch"])
    main = type(sys)("__main__")
    main.__file__ = script
    sys.modules["__main__"] = main
    return compile(Path(script).read_text(), script, "exec"), main.__dict__


if __name__ == "__main__":
    code, namespace = become(serve(sys.argv[1]))
    exec(code, namespace)
