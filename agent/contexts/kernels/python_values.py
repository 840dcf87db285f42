"""Python's lists and dictionaries as values of JSON."""

import math
import numbers

most_values = 100_000
deepest_nesting = 20


class NoJson(Exception):
    pass


def as_json(value):
    """A copy that JSON can represent. None if there is none, or it would be too large."""
    try:
        return Converter().convert(value, 0)
    except NoJson:
        return None


class Converter:
    def __init__(self):
        self.values = 0

    def convert(self, value, depth):
        self.values += getattr(value, "size", 1) if hasattr(value, "tolist") else 1
        if self.values > most_values or depth > deepest_nesting:
            raise NoJson
        if hasattr(value, "tolist"):
            # numpy's arrays and numbers
            value = value.tolist()
        if value is None or isinstance(value, (str, bool)):
            return value
        if isinstance(value, numbers.Integral):
            return int(value)
        if isinstance(value, numbers.Real):
            return float(value) if math.isfinite(value) else None
        if isinstance(value, (list, tuple)):
            return [self.convert(each, depth + 1) for each in value]
        if isinstance(value, dict):
            return {self.key(name): self.convert(each, depth + 1) for name, each in value.items()}
        if hasattr(value, "isoformat"):
            return value.isoformat()
        raise NoJson

    def key(self, name):
        name = self.convert(name, deepest_nesting)
        if isinstance(name, bool) or name is None:
            return {True: "true", False: "false", None: "null"}[name]
        if not isinstance(name, (str, int, float)):
            raise NoJson
        return str(name)
