"""The data of a matplotlib figure: `{type, title, elements, extra}` in the form of the contract's Chart."""

import functools
import importlib.abc
import importlib.util
import json
import math
import numbers
import re
import sys

# A larger plot is only sent as an image, because its text would be larger than its data.
most_points = 100_000


def figure_chart(figure):
    """The chart of a figure. None if its kind is unknown, a `superchart` of nested charts if there are several."""
    charts = [chart for axes in figure.axes for chart in axes_charts(axes)]
    heading = figure.get_suptitle() if hasattr(figure, "get_suptitle") else getattr(figure._suptitle, "_text", "")
    if not charts:
        return None
    if len(charts) == 1:
        charts[0]["title"] = charts[0]["title"] or heading
        return charts[0]
    return {
        "type": "superchart",
        "title": heading,
        "elements": [{"nested_chart": chart} for chart in charts],
        "extra": {},
    }


def axes_charts(axes):
    """One chart for each kind of plot in these axes."""
    from matplotlib.collections import PathCollection
    from matplotlib.container import BarContainer, ErrorbarContainer
    from matplotlib.patches import Wedge

    if not axes.get_visible() or axes.get_label() == "<colorbar>":
        return []
    boxes = [box for box in getattr(axes, "_sandbox_boxes", []) if box.is_shown(axes)]
    not_data = {id(artist) for box in boxes for artist in box.artists}
    for container in axes.containers:
        if isinstance(container, ErrorbarContainer):
            not_data.update(id(cap) for cap in container.lines[1])
    lines = [
        line
        for line in axes.lines
        if id(line) not in not_data and line.get_visible() and line.get_transform() is axes.transData
    ]
    drawn = [line for line in lines if line.get_linestyle() not in ("None", "", " ")]
    dotted = [line for line in lines if line not in drawn and line.get_marker() not in ("None", "", " ", None)]
    scattered = [collection for collection in axes.collections if isinstance(collection, PathCollection)]
    bars = [container for container in axes.containers if isinstance(container, BarContainer)]
    wedges = [patch for patch in axes.patches if isinstance(patch, Wedge)]

    points = sum(len(line.get_xdata(orig=False)) for line in lines) + sum(len(c.get_offsets()) for c in scattered)
    if points + sum(len(container) for container in bars) > most_points:
        return []
    kinds = {
        "line": [line_points(axes, line) for line in drawn],
        "scatter": [line_points(axes, line) for line in dotted] + [scatter_points(axes, each) for each in scattered],
        "bar": [bar for container in bars for bar in bar_elements(axes, container)],
        "box_and_whisker": [element for box in boxes for element in box.elements(axes)],
        "pie": [pie_element(wedge) for wedge in wedges],
    }
    return [
        {"type": kind, "title": axes.get_title(), "elements": elements, "extra": {} if kind == "pie" else axis_facts(axes)}
        for kind, elements in kinds.items()
        if elements
    ]


def line_points(axes, line):
    return point_series(axes, line, zip(line.get_xdata(orig=True), line.get_ydata(orig=True)))


def scatter_points(axes, collection):
    return point_series(axes, collection, scattered_pairs(collection.get_offsets()))


def scattered_pairs(offsets):
    """matplotlib masks a whole point if one of its coordinates is not finite. The other one is kept."""
    from numpy import ma

    masked = ma.getmaskarray(offsets).any(axis=1)
    for pair, is_masked in zip(ma.getdata(offsets).tolist(), masked):
        is_gap = is_masked and all(map(math.isfinite, pair))
        yield (math.nan, math.nan) if is_gap else pair


def point_series(axes, artist, pairs):
    points = [point(axis_value(axes.xaxis, x), axis_value(axes.yaxis, y)) for x, y in pairs]
    return {"point_data": {"label": shown_label(artist), "points": points}}


def bar_elements(axes, container):
    upright = getattr(container, "orientation", None) != "horizontal"
    axis = axes.xaxis if upright else axes.yaxis
    for bar in container:
        start, width = (bar.get_x(), bar.get_width()) if upright else (bar.get_y(), bar.get_height())
        centre = start + width / 2
        label = label_at(axis, centre) or position_text(axis_value(axis, centre))
        value = bar.get_height() if upright else bar.get_width()
        yield {"bar_data": {"label": label, "group": shown_label(container), "value": as_text(value)}}


def pie_element(wedge):
    angle = float(wedge.theta2 - wedge.theta1)
    return {"pie_data": {"label": shown_label(wedge), "angle": angle, "radius": float(wedge.r)}}


class BoxPlot:
    """The artists and the input numbers of one call of `Axes.bxp`."""

    def __init__(self, stats, drawn):
        self.stats = stats
        self.medians = drawn["medians"]
        self.artists = [artist for artists in drawn.values() for artist in artists]

    def is_shown(self, axes):
        return any(artist.axes is axes for artist in self.artists)

    def elements(self, axes):
        for box, median in zip(self.stats, self.medians):
            (left, right), (bottom, top) = median.get_xdata(), median.get_ydata()
            axis, centre = (axes.xaxis, (left + right) / 2) if bottom == top else (axes.yaxis, (bottom + top) / 2)
            yield {
                "box_whisker_data": {
                    "label": label_at(axis, centre) or str(box.get("label", "")),
                    "min": finite(box["whislo"]),
                    "first_quartile": finite(box["q1"]),
                    "median": finite(box["med"]),
                    "third_quartile": finite(box["q3"]),
                    "max": finite(box["whishi"]),
                    "outliers": [finite(value) for value in box.get("fliers", [])],
                }
            }


def remember_box_plots(axes_module):
    """A box plot leaves only lines in its axes, so its numbers are recorded when it is drawn."""
    drawn_by = axes_module.Axes.bxp

    @functools.wraps(drawn_by)
    def bxp(self, bxpstats, *args, **kwargs):
        drawn = drawn_by(self, bxpstats, *args, **kwargs)
        self.__dict__.setdefault("_sandbox_boxes", []).append(BoxPlot(bxpstats, drawn))
        return drawn

    axes_module.Axes.bxp = bxp


class AfterImport(importlib.abc.MetaPathFinder):
    """Calls back once when any code has imported a module."""

    def __init__(self, name, imported):
        self.name = name
        self.imported = imported

    def find_spec(self, fullname, path=None, target=None):
        if fullname != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            self.imported(module)

        spec.loader.exec_module = exec_module
        return spec


def watch_box_plots():
    sys.meta_path.insert(0, AfterImport("matplotlib.axes._axes", remember_box_plots))


def point(x, y):
    described = {}
    for name, value in (("x", x), ("y", y)):
        value = plain(value)
        if isinstance(value, str):
            described[f"{name}_str"] = value
        elif math.isfinite(value):
            described[f"{name}_num"] = value
    return described


def plain(value):
    """A number as float, or as text if it has more digits; a date, a time or a name as text."""
    if isinstance(value, str):
        return value
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if type(value).__name__ in ("datetime64", "timedelta64", "Period"):
        return str(value)
    if type(value).__name__ == "MaskedConstant":
        return math.nan
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return str(value)
    return str(int(value)) if isinstance(value, numbers.Integral) and number != int(value) else number


def finite(value):
    """JSON has no NaN, so it becomes None."""
    return float(value) if math.isfinite(value) else None


def as_text(value):
    """The exact value."""
    value = plain(value)
    if isinstance(value, str):
        return value
    return str(int(value)) if math.isfinite(value) and value == int(value) else repr(value)


def position_text(position):
    return as_text(without_noise(position) if isinstance(position, float) else position)


def without_noise(position):
    """A computed position such as 0.30000000000000004 without the error of its computation."""
    return float(f"{position:.15g}")


def shown_label(artist):
    """Labels that begin with an underscore are set by matplotlib itself."""
    label = str(artist.get_label() or "")
    return "" if label.startswith("_") else label


def axis_kind(axis):
    converter = axis.get_converter() if hasattr(axis, "get_converter") else axis.converter
    name = type(converter).__name__
    if name == "StrCategoryConverter":
        return "categorical"
    if "Date" in name or "Period" in name:
        return "datetime"
    return axis.get_scale()


def axis_value(axis, value):
    """The value at a position of the axis: a category, a date, or the number itself."""
    if not isinstance(value, numbers.Real):
        return value
    kind = axis_kind(axis)
    if kind == "categorical":
        names = {number: name for name, number in axis.units._mapping.items()}
        return names.get(round(value), value)
    if kind == "datetime" and getattr(axis.axes, "freq", None):
        from pandas import Period

        return Period(ordinal=round(value), freq=axis.axes.freq).to_timestamp()
    if kind == "datetime":
        from matplotlib.dates import num2date

        return num2date(value).replace(tzinfo=None)
    return value


def label_at(axis, position):
    """The explicit label (`xticks`, `tick_label`, pandas) near this position. Empty if there is none."""
    from matplotlib.ticker import FixedLocator

    if not isinstance(axis.get_major_locator(), FixedLocator):
        return ""
    labels = zip(axis.get_majorticklocs(), axis.get_majorticklabels())
    distance, label = min(((abs(tick - position), label.get_text()) for tick, label in labels), default=(1, ""))
    return label if distance < 0.5 else ""


def axis_facts(axes):
    facts = {}
    for name, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
        label = axis.get_label().get_text()
        unit = re.search(r"[(\[]([^()\[\]]+)[)\]]\s*$", label)
        low, high = sorted(axis.get_view_interval())
        ticks = [
            (tick, re.sub(r"^\$\\mathdefault\{(.*)\}\$$", r"\1", label.get_text()))
            for tick, label in zip(axis.get_majorticklocs(), axis.get_majorticklabels())
            if low <= tick <= high
        ]
        facts[f"{name}_label"] = label
        facts[f"{name}_unit"] = unit.group(1) if unit else ""
        facts[f"{name}_scale"] = axis_kind(axis)
        facts[f"{name}_ticks"] = json.dumps([plain(axis_value(axis, without_noise(tick))) for tick, _ in ticks])
        facts[f"{name}_tick_labels"] = json.dumps([text for _, text in ticks], ensure_ascii=False)
    return facts
