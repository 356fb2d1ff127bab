"""Tells the recorder of the outermost module calls of a program that has no optimizer.

A hook on all modules stays for one call only: the first module that is called outside any other is
an outermost one. From then on its class's `__call__` is ours, and no other module pays for us. When
that call is over the hook comes back, a few times, to meet the outermost modules of other classes.
Neither instances nor their state change, so copies and pickles are as without us. All is undone as
soon as an optimizer, a loader or a mark gives the steps. Around torch.compile nothing of ours is in
place, so that it compiles what it would without us.
"""

import functools
import sys
import threading
from importlib import import_module
from time import perf_counter_ns

from kinetoscope.torch.step_finder import INFERENCE

SEARCHES_MAX = 32  # times that the hook comes back
CLASSES_MAX = 8


class _Depth(threading.local):
    depth = 0  # inside calls of classes that are ours


class ModuleWatcher:
    def __init__(self, torch, recorder, is_compiling):
        self._torch = torch
        self._recorder = recorder
        self._is_compiling = is_compiling
        self._register = import_module("torch.nn.modules.module").register_module_forward_pre_hook
        self._module_class = torch.nn.Module
        self._script_class = torch.jit.ScriptModule
        self._searches_left = SEARCHES_MAX
        self._search = None  # the handle of the hook while it is there
        self._classes = {}  # class -> what its __call__ was, None when it inherits it
        self._local = _Depth()
        self._is_over = False
        self._compile = None
        self._own_compile = None

    def begin(self):
        self._wrap_compile()
        self.begin_search()

    # ---------------------------------------------------------------- the search

    def begin_search(self):
        if self._search is None and self._searches_left > 0 and not self._is_over:
            self._searches_left -= 1
            self._search = self._register(self._make_hook())

    def end_search(self):
        search, self._search = self._search, None
        if search is not None:
            search.remove()

    def _make_hook(self):
        def first_call(module, args):
            if not self._is_compiling():
                self._guarded(self._meet, module)

        return first_call

    def _meet(self, module):
        """The first call of an outermost module; it is over when a hook of its own says so."""
        self.end_search()
        if self._local.depth > 0 or self._is_over or isinstance(module, self._script_class):
            return  # a scripted module takes no hook of its own
        self.watch_class(type(module))
        begin_ns = perf_counter_ns()
        handles = []

        def first_return(module, args, output):
            for handle in handles:
                handle.remove()
            self._local.depth = 0
            if output is not None:  # else it raised
                self._tell(module, perf_counter_ns() - begin_ns, output)

        handles.append(module.register_forward_hook(first_return, always_call=True))
        self._local.depth = 1

    # ---------------------------------------------------------------- classes

    def watch_class(self, module_class):
        if self._is_over or module_class in self._classes or len(self._classes) >= CLASSES_MAX:
            return
        if issubclass(module_class, self._script_class):
            return
        own = vars(module_class).get("__call__")
        self._classes[module_class] = own
        module_class.__call__ = self._make_call(module_class, own)

    def _make_call(self, module_class, own):
        is_compiling = self._is_compiling

        def inner(module, *args, **kwargs):
            if own is not None:
                return own(module, *args, **kwargs)
            # Looked up anew each time: torch.fx replaces Module.__call__ while it traces.
            return super(module_class, module).__call__(*args, **kwargs)

        @functools.wraps(own or self._module_class.__call__)
        def call(module, *args, **kwargs):
            if is_compiling() or self._local.depth > 0 or self._is_over:
                return inner(module, *args, **kwargs)
            begin_ns = self._enter()
            try:
                result = inner(module, *args, **kwargs)
            finally:
                self._local.depth = 0
            self._tell(module, perf_counter_ns() - begin_ns, result)
            return result

        _leave_frames_out(call, inner)
        return call

    def _enter(self):
        self._local.depth = 1
        self._guarded(self.end_search)
        return perf_counter_ns()

    def _tell(self, module, dur_ns, output):
        """An outermost call has returned."""
        if self._recorder.wants_outputs:
            self._recorder.saw_output(output)
        self._recorder.heard(INFERENCE, module, dur_ns)
        self._guarded(self.begin_search)

    # ---------------------------------------------------------------- torch.compile

    def _wrap_compile(self):
        """A compiled module is watched where it is called, outside of what is compiled."""
        inner = self._compile = getattr(self._torch, "compile", None)
        if inner is None:
            return

        @functools.wraps(inner)
        def compile_unwatched(model=None, *args, **kwargs):
            classes = self._guarded(self._before_compile) or []
            result = inner(model, *args, **kwargs)
            self._guarded(self._after_compile, classes, model, result)
            return result

        self._torch.compile = self._own_compile = compile_unwatched

    def _before_compile(self):
        self.end_search()
        return self.release_classes()

    def _after_compile(self, classes, model, result):
        """`model` is a module, or the bound call of one that is compiled in place, or a function.
        The hook on all modules would be compiled into a function."""
        compiled_class = type(model)
        if isinstance(result, self._module_class):
            self.watch_class(type(result))
        elif isinstance(getattr(model, "__self__", None), self._module_class):
            compiled_class = None
            self.watch_class(type(model.__self__))
        else:
            self._searches_left = 0
        for module_class in classes:
            if module_class is not compiled_class:
                self.watch_class(module_class)
        self.begin_search()

    # ---------------------------------------------------------------- the end

    def release_classes(self):
        """Gives back what their __call__ was; returns them."""
        classes, self._classes = self._classes, {}
        for module_class, own in classes.items():
            if own is None:
                del module_class.__call__
            else:
                module_class.__call__ = own
        return list(classes)

    def end(self):
        """The steps come from elsewhere, or there are none to look for."""
        self._is_over = True
        self.end_search()
        self.release_classes()
        if getattr(self._torch, "compile", None) is self._own_compile:
            self._torch.compile = self._compile

    def _guarded(self, action, *args):
        try:
            return action(*args)
        except Exception as failure:
            self._is_over = True
            self._recorder.fail(failure)
            return None


def _leave_frames_out(*functions):
    """Where torch.compile looks at each frame, it passes over these, as over those of torch."""
    skip_code = getattr(sys.modules.get("torch._dynamo.eval_frame"), "skip_code", None)
    if skip_code is not None:
        for function in functions:
            skip_code(function.__code__)
