"""The public methods of the installed packages e2b and e2b_code_interpreter."""

import inspect
import json
import typing
from enum import Enum

import e2b
import e2b_code_interpreter


def is_theirs(thing: object) -> bool:
    return (getattr(thing, "__module__", None) or "").split(".")[0] in ("e2b", "e2b_code_interpreter")


def public_methods(cls: type) -> typing.Iterator[tuple[str, typing.Any]]:
    """Names and functions. A method of the class itself has `static ` before its name."""
    for name in dir(cls):
        attribute = inspect.getattr_static(cls, name)
        if name.startswith("_") or inspect.isclass(attribute):
            continue
        # Descriptors of the package, which a class and its objects have as different functions.
        if hasattr(attribute, "class_method_name"):
            yield f"static {name}", getattr(cls, attribute.class_method_name)
            yield name, attribute.method
        elif is_theirs(type(attribute)) and hasattr(attribute, "_static_fn"):
            yield f"static {name}", getattr(cls, name)
            yield name, attribute._instance_fn
        elif isinstance(attribute, (classmethod, staticmethod)) and is_theirs(getattr(cls, name)):
            yield f"static {name}", getattr(cls, name)
        elif inspect.isfunction(attribute) and is_theirs(attribute):
            yield name, attribute


def results(cls: type) -> typing.Iterator[type]:
    """The classes that its methods and properties return."""
    properties = [each.fget for _, each in inspect.getmembers_static(cls, lambda each: isinstance(each, property))]
    for function in [*properties, *(function for _, function in public_methods(cls))]:
        yield from classes_of(typing.get_type_hints(inspect.unwrap(function)).get("return"))


def classes_of(annotation: object) -> list[type]:
    own = [annotation] if inspect.isclass(annotation) else []
    return own + [each for part in typing.get_args(annotation) for each in classes_of(part)]


def exported() -> dict[str, typing.Any]:
    named = {**vars(e2b), **vars(e2b_code_interpreter)}
    return {name: each for name, each in named.items() if not name.startswith("_") and is_theirs(each)}


def public_classes() -> set[type]:
    """The exported classes, and those of the objects that their methods and properties return."""
    # Both packages export classes of the same names.
    waiting = [each for module in (e2b, e2b_code_interpreter) for each in vars(module).values() if inspect.isclass(each)]
    seen: set[type] = set()
    while waiting:
        cls = waiting.pop()
        if cls in seen or not is_theirs(cls) or issubclass(cls, (BaseException, Enum)):
            continue
        seen.add(cls)
        waiting.extend(results(cls))
    return seen


def surface() -> dict[str, list[str]]:
    """The names of methods by class, and those of functions by the empty text."""
    found = {"": {name for name, each in exported().items() if inspect.isfunction(each)}}
    for cls in public_classes():
        found.setdefault(cls.__name__, set()).update(name for name, _ in public_methods(cls))
    return {name: sorted(methods) for name, methods in found.items() if methods}


if __name__ == "__main__":
    print(json.dumps(surface()))
