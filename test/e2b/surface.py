"""Prints the public methods of the installed packages e2b and e2b_code_interpreter, as JSON: names by class."""

import inspect
import json
import typing
from enum import Enum

import e2b
import e2b_code_interpreter


def is_theirs(thing: object) -> bool:
    return (getattr(thing, "__module__", None) or "").split(".")[0] in ("e2b", "e2b_code_interpreter")


def is_dual(attribute: object) -> bool:
    """Whether it is a descriptor of the packages, which a class and its instances have as different functions."""
    return is_theirs(type(attribute)) and hasattr(attribute, "__get__")


def methods(cls: type, waiting: list[type]) -> typing.Iterator[str]:
    for name in dir(cls):
        attribute = inspect.getattr_static(cls, name)
        called = attribute.fget if isinstance(attribute, property) else getattr(cls, name)
        if name.startswith("_") or not callable(called) or not is_theirs(inspect.unwrap(called)):
            continue
        if inspect.isclass(called):
            continue
        waiting.extend(classes_of(typing.get_type_hints(inspect.unwrap(called)).get("return")))
        if isinstance(attribute, (classmethod, staticmethod)) or is_dual(attribute):
            yield f"static {name}"
        if inspect.isfunction(attribute) or is_dual(attribute):
            yield name


def classes_of(annotation: object) -> list[type]:
    own = [annotation] if inspect.isclass(annotation) else []
    return own + [each for part in typing.get_args(annotation) for each in classes_of(part)]


found: dict[str, set[str]] = {"": set()}
waiting: list[type] = []
for package in (e2b, e2b_code_interpreter):
    for name, exported in vars(package).items():
        if name.startswith("_") or not is_theirs(exported):
            continue
        if inspect.isclass(exported):
            waiting.append(exported)
        elif inspect.isfunction(exported):
            found[""].add(name)
seen: set[type] = set()
while waiting:
    cls = waiting.pop()
    if cls in seen or not is_theirs(cls) or issubclass(cls, (BaseException, Enum)):
        continue
    seen.add(cls)
    found.setdefault(cls.__name__, set()).update(methods(cls, waiting))
print(json.dumps({name: sorted(each) for name, each in found.items() if each}))
