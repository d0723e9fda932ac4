# SPDX-License-Identifier: GPL-2.0
"""The style of all pictures, and pictures as SVG for a page in light or dark.

A test's draw(figure, result, arrays) gets a bare Figure and may use what is here:

    left, right = plots.panels(figure, 2)       # a row; a column if it is narrow
    plots.dots(left, arrays["lat_us"] / 1000, "write")
    plots.level(left, 10.17, "one rotation")

Every picture is drawn twice, wide and narrow.  Colours stand out on white and on
black; what is black or white in matplotlib becomes the page's ink and paper.
"""

import base64
import io
import re

BLUE, ORANGE, GREEN, RED, PURPLE, GREY = (
    "#3b82c4", "#d9772b", "#3f9b5f", "#d1495b", "#8a63c9", "#8a8a8a")
CYCLE = (BLUE, ORANGE, GREEN, PURPLE, RED, "#b0892f", "#2aa5a0", GREY)
WRITE, READ, MARK = ORANGE, BLUE, RED
WIDE, NARROW = (8.6, 3.4), (3.9, 3.0)      # inches
MANY = 300              # points of one series from which on they are drawn as pixels
COLOURS = 64            # of pixels
DPI = 160


def style():
    from cycler import cycler
    return {
        "axes.prop_cycle": cycler(color=CYCLE),
        "axes.spines.top": False, "axes.spines.right": False,
        "axes.titlesize": 9, "axes.labelsize": 9, "font.size": 9,
        "axes.titlelocation": "left", "axes.facecolor": "none",
        "figure.facecolor": "none", "savefig.facecolor": "none",
        "legend.frameon": True, "legend.facecolor": "white", "legend.framealpha": 0.8,
        "legend.edgecolor": "none", "legend.fontsize": 8,
        "xtick.labelsize": 8, "ytick.labelsize": 8,
        "lines.markersize": 3, "lines.linewidth": 1.2,
        "font.family": "DejaVu Sans", "svg.fonttype": "none",
        "svg.hashsalt": "skylight", "agg.path.chunksize": 20000,
    }


def is_narrow(figure):
    return figure.get_figwidth() < (WIDE[0] + NARROW[0]) / 2


def panels(figure, count, share_x=False, share_y=False, ratios=None):
    """@count axes in a row, or in a narrow figure in a column, which makes it higher."""
    if not is_narrow(figure):
        axes = figure.subplots(1, count, sharex=share_x, sharey=share_y, squeeze=False,
                               gridspec_kw={"width_ratios": ratios})
    else:
        figure.set_figheight(figure.get_figheight() * (1 + 0.75 * (count - 1)))
        axes = figure.subplots(count, 1, sharex=share_x, sharey=share_y, squeeze=False)
    return list(axes.flat)


def dots(axes, y, kind=None, x=None, **more):
    """One small dot for each operation."""
    colour = {"write": WRITE, "read": READ, "mark": MARK}.get(kind)
    if colour and "color" not in more:
        more["color"] = colour
    return axes.plot(range(len(y)) if x is None else x, y, linestyle="none",
                     **{"marker": ".", "alpha": 0.75, **more})[0]


def level(axes, value, text, **more):
    """A dotted horizontal line with a label."""
    axes.axhline(value, **{"color": "black", "linewidth": 0.8, "linestyle": ":", **more})
    axes.annotate(text, (1, value), xycoords=("axes fraction", "data"), ha="right",
                  va="bottom", fontsize=8,
                  bbox={"facecolor": "white", "alpha": 0.75, "edgecolor": "none", "pad": 1})


def logarithmic(axes):
    """A logarithmic y axis, with numbers as elsewhere."""
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")


def span(axes, low, high, text=None, colour=GREEN):
    """A shaded range of x, e.g. one band."""
    axes.axvspan(low, high, color=colour, alpha=0.18, linewidth=0)
    if text:
        axes.annotate(text, ((low + high) / 2, 0.98), ha="center", va="top", fontsize=8,
                      xycoords=("data", "axes fraction"))


def _pixels(figure):
    """Draws series with very many points as pixels, as vectors would make the page huge."""
    for axes in figure.axes:
        for line in axes.lines:
            if len(line.get_xdata()) > MANY:
                line.set_rasterized(True)
        for some in axes.collections:
            if len(some.get_offsets()) > MANY:
                some.set_rasterized(True)


def _sparse(figure):
    """Reduces ticks so that their labels do not meet in a narrow picture."""
    from matplotlib.ticker import AutoLocator
    for axes in figure.axes:
        if is_narrow(figure) and isinstance(axes.xaxis.get_major_locator(), AutoLocator):
            axes.locator_params(axis="x", nbins=5)


def _grouped(figure):
    """Writes the numbers along linear axes as elsewhere."""
    from matplotlib.ticker import ScalarFormatter

    class Grouped(ScalarFormatter):
        """Groups digits by threes."""

        def __call__(self, x, pos=None):
            return re.sub(r"(?<![.\d])\d{4,}", lambda m: f"{int(m[0]):,}",
                          super().__call__(x, pos))

    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            if type(axis.get_major_formatter()) is ScalarFormatter:
                axis.set_major_formatter(Grouped())


def drawn(draw, size=WIDE):
    """A Figure by draw(figure), in the style of the suite."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    with rc_context(style()):
        figure = Figure(figsize=size, layout="constrained")
        draw(figure)
        _pixels(figure)
        _sparse(figure)
        _grouped(figure)
        return figure


def svg(draw, name, size=WIDE):
    """The picture as an <svg> element; @name keeps its ids apart from others."""
    from matplotlib import rc_context
    with rc_context(style()):
        figure = drawn(draw, size)
        out = io.StringIO()
        figure.savefig(out, format="svg", dpi=DPI, metadata={"Date": None})
    text = out.getvalue()
    text = text[text.index("<svg"):]
    text = re.sub(r"(data:image/png;base64,)([^\"]+)", lambda m: m[1] + smaller(m[2]), text)
    # A hundredth of a point cannot be seen.
    text = re.sub(r'(?<= )([xyd])="([^"]*)"', lambda m: f'{m[1]}="' + re.sub(
        r"(\.\d\d)\d+", r"\1", m[2]) + '"', text)
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.S)
    text = re.sub(r"#000000\b", "currentColor", text)
    text = re.sub(r"#ffffff\b", "var(--paper)", text)
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r'(xlink:href|href)="#', rf'\1="#{name}-', text)
    text = text.replace("url(#", f"url(#{name}-")
    text = re.sub(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>',
                  r'<svg xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="\1" '
                  'role="img" fill="currentColor">', text, count=1, flags=re.S)
    return text.strip()


def smaller(pixels):
    """A picture in base64, with few colours."""
    from PIL import Image
    out = io.BytesIO()
    with Image.open(io.BytesIO(base64.b64decode(pixels))) as image:
        image.quantize(COLOURS, method=Image.Quantize.FASTOCTREE).save(out, "png", optimize=True)
    return base64.b64encode(out.getvalue()).decode("ascii")


def png(draw, path, size=WIDE):
    """The same as a file, on white."""
    from matplotlib import rc_context
    with rc_context(style()):
        drawn(draw, size).savefig(path, dpi=DPI, facecolor="white")


# --- several runs in one picture --------------------------------------------


def _points(axes):
    """[(dots or the style of a line, x, y)] of the data in an axes."""
    import numpy
    out = []
    for line in axes.lines:
        if line.get_transform() == axes.transData and len(line.get_xdata()):
            style_of = line.get_linestyle()
            out.append(("dots" if style_of in ("None", "none", "", " ") else style_of,
                        numpy.asarray(line.get_xdata()), numpy.asarray(line.get_ydata())))
    for some in axes.collections:
        at = numpy.ma.filled(numpy.asarray(some.get_offsets(), float), numpy.nan)
        if len(at) > 1:
            out.append(("dots", at[:, 0], at[:, 1]))
    bars = [p for p in axes.patches if p.get_transform().contains_branch(axes.transData)
            and hasattr(p, "get_width") and p.get_height()]
    if bars:
        flat = len({round(p.get_x(), 9) for p in bars}) == 1 and len(bars) > 1
        edges = [((p.get_y(), p.get_height(), p.get_width()) if flat else
                  (p.get_x(), p.get_width(), p.get_height())) for p in bars]
        along = numpy.array([v for at, wide, _ in edges for v in (at, at + wide)])
        tall = numpy.array([v for _, _, high in edges for v in (high, high)])
        out.append(("-", *((tall, along) if flat else (along, tall))))
    return out


def overlay(figure, draws):
    """The pictures of several runs on top of each other, a colour for each.

    draws: [(label, draw)]; each draw(figure) draws one run alone."""
    from matplotlib.ticker import FixedLocator
    shown = []
    for label, draw in draws:
        shown.append((label, drawn(draw, tuple(figure.get_size_inches()))))
    most = max((f for _, f in shown), key=lambda f: len(f.axes))
    all_axes = panels(figure, len(most.axes))
    for i, axes in enumerate(all_axes):
        for run, (label, one) in enumerate(shown):
            if i >= len(one.axes):
                continue
            colour, named = CYCLE[run % len(CYCLE)], False
            for kind, x, y in _points(one.axes[i]):
                looks = ({"linestyle": "none", "marker": ".", "alpha": 0.5}
                         if kind == "dots" else {"alpha": 0.8, "linestyle": kind})
                axes.plot(x, y, color=colour, label=None if named else label, **looks)
                named = True
        like = most.axes[i]
        axes.set(title=like.get_title(loc="left") or like.get_title(),
                 xlabel=like.get_xlabel(), ylabel=like.get_ylabel(),
                 xscale=like.get_xscale(), yscale=like.get_yscale())
        for named, its in ((axes.xaxis, like.xaxis), (axes.yaxis, like.yaxis)):
            if isinstance(its.get_major_locator(), FixedLocator):
                named.set_ticks(its.get_majorticklocs(),
                                [t.get_text() for t in its.get_majorticklabels()])
    handles, labels = all_axes[0].get_legend_handles_labels()
    if handles:
        columns = 1 if is_narrow(figure) else min(4, len(labels))
        rows = -(-len(labels) // columns)
        figure.legend(handles, labels, loc="upper left", ncol=columns, markerscale=3,
                      borderaxespad=0)
        # A legend within an axes would take its width from the others.
        figure.get_layout_engine().set(
            rect=(0, 0, 1, 1 - 0.22 * rows / figure.get_figheight()))
