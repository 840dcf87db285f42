"""Prints the public methods and properties of the clients with and without asyncio, with their parameters, as JSON."""

import inspect
import json

from sandbox_platform import _async, _sync


def members(cls: type) -> dict[str, list[str]]:
    found = {}
    for name, value in vars(cls).items():
        if name.startswith("_"):
            continue
        function = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
        if isinstance(function, property):
            found[name] = []
        elif inspect.isfunction(function):
            given = inspect.signature(function).parameters
            found[name] = [each for each in given if each not in ("self", "cls")]
    return found


def surface(package: object, prefix: str) -> dict[str, dict[str, list[str]]]:
    classes = {}
    for module in vars(package).values():
        if not inspect.ismodule(module):
            continue
        for name, value in vars(module).items():
            if inspect.isclass(value) and value.__module__ == module.__name__:
                classes[name.removeprefix(prefix)] = members(value)
    return classes


print(json.dumps({"sync": surface(_sync, ""), "async": surface(_async, "Async")}))
