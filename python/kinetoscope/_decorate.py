"""Functions that stand for decorated ones: what profile_operation gives as a decorator.

They are Python functions of the same kind as what they stand for, so that inspect, pickle, asyncio
and frameworks see no difference. A coroutine is one region from its first step to its last; a
generator is a region each time that it runs, and none while its user has the word.
"""

import functools
import inspect


def decorate(region, function):
    """`function` in regions. TypeError when it cannot be called; a class is not taken either."""
    if isinstance(function, (staticmethod, classmethod)):
        return type(function)(decorate(region, function.__func__))
    if not callable(function) or isinstance(function, type):
        raise TypeError(f"profile_operation decorates functions, not {function!r}")
    return functools.wraps(function)(_wrapper_of(function)(region, function))


def _wrapper_of(function):
    if inspect.isasyncgenfunction(function):
        return _async_generator
    if inspect.iscoroutinefunction(function):
        return _coroutine
    if inspect.isgeneratorfunction(function):
        return _generator
    return _plain


def _plain(region, function):
    def wrapper(*args, **kwargs):
        with region:
            return function(*args, **kwargs)

    return wrapper


def _coroutine(region, function):
    async def wrapper(*args, **kwargs):
        with region:
            return await function(*args, **kwargs)

    return wrapper


def _generator(region, function):
    def wrapper(*args, **kwargs):
        generator = function(*args, **kwargs)
        resume, argument = generator.send, None
        while True:
            with region:
                try:
                    item = resume(argument)
                except StopIteration as stop:
                    return stop.value
            try:
                argument = yield item
                resume = generator.send
            except GeneratorExit:
                with region:
                    generator.close()
                raise
            except BaseException as error:
                resume, argument = generator.throw, error

    return wrapper


def _async_generator(region, function):
    async def wrapper(*args, **kwargs):
        generator = function(*args, **kwargs)
        resume, argument = generator.asend, None
        while True:
            with region:
                try:
                    item = await resume(argument)
                except StopAsyncIteration:
                    return
            try:
                argument = yield item
                resume = generator.asend
            except GeneratorExit:
                with region:
                    await generator.aclose()
                raise
            except BaseException as error:
                resume, argument = generator.athrow, error

    return wrapper
