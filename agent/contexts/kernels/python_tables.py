"""The cells of a pandas DataFrame as JSON text. pandas.DataFrame.to_json rounds numbers, and fails on bytes."""

import collections
import json
import numbers
import re

largest_cells = 100_000
deepest_nesting = 20
json_number = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def frame_data(frame):
    """`{"text": '{"column": [values]}'}` with every digit, or `{"missing": reason}`."""
    try:
        return {"text": frame_text(frame)}
    except Exception as error:
        return {"missing": f"{type(error).__name__}: {error}"}


def frame_text(frame):
    if frame.size > largest_cells:
        raise ValueError(f"the table has more than {largest_cells} cells")
    names = [column_name(name) for name in frame.columns]
    repeated = [name for name, count in collections.Counter(names).items() if count > 1]
    if repeated:
        raise ValueError(f"columns have the same name: {', '.join(repeated)}")
    columns = [
        f"{json.dumps(name)}: [{', '.join(json_text(value) for value in frame.iloc[:, at])}]"
        for at, name in enumerate(names)
    ]
    return "{" + ", ".join(columns) + "}"


def column_name(name):
    return name.isoformat() if hasattr(name, "isoformat") else str(name)


def json_text(value, depth=0):
    """A number keeps its digits. A value that JSON lacks is the text that Python prints for it; a missing one is null."""
    if value is None or is_missing(value):
        return "null"
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, numbers.Number) or type(value).__name__ in ("bool", "bool_"):
        return number_text(value)
    if hasattr(value, "isoformat"):
        return json.dumps(value.isoformat())
    if depth < deepest_nesting:
        if hasattr(value, "tolist") and getattr(value, "ndim", 0) > 0:
            value = list(value)
        if isinstance(value, (list, tuple)):
            return "[" + ", ".join(json_text(each, depth + 1) for each in value) + "]"
        if isinstance(value, dict) and len({str(key) for key in value}) == len(value):
            pairs = (f"{json.dumps(str(key))}: {json_text(each, depth + 1)}" for key, each in value.items())
            return "{" + ", ".join(pairs) + "}"
    return json.dumps(str(value))


def is_missing(value):
    if type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, numbers.Number) or type(value).__name__ in ("datetime64", "timedelta64"):
        return bool(value != value)
    return False


def number_text(value):
    if type(value).__name__ in ("bool", "bool_"):
        return "true" if value else "false"
    text = str(value)
    if json_number.fullmatch(text):
        return text
    # JSON has no infinity, and no fractions.
    return json.dumps({"inf": "Infinity", "-inf": "-Infinity"}.get(text, text))
