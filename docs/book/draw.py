#!/usr/bin/env python3
"""Draws the figures of the book: docs/book/figures/.

    docs/book/draw.py            writes them
    docs/book/draw.py --check    exit status 1 if a file there is not what this program draws

Each figure is a function that returns a Figure. It is drawn from computed positions, or from the output of an
experiment, which a test compares with the program's (docs/book/check.py).
"""
import html
import pathlib
import sys

book = pathlib.Path(__file__).resolve().parent

# Legible on a light background, which each figure brings with it. Ranks, and other things in a row, take these colours.
COLOURS = ["#4c78a8", "#f58518", "#54a24b", "#b279a2"]
PALE = ["#c9d8e8", "#fcdcb8", "#cbe3c8", "#e3d2df"]
INK, GREY, LINE = "#1a1c1e", "#6b7075", "#9ca0a5"


class Figure:
    """An SVG. Positions are in pixels."""

    def __init__(self, width, height, title):
        assert width <= 720
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
            'font-family="sans-serif" font-size="13" role="img">',
            f"<title>{html.escape(title)}</title>",
            f'<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            f'<path d="M0 0L8 4L0 8z" fill="{GREY}"/></marker></defs>',
        ]
        self.rect(0, 0, width, height, "#ffffff", radius=6)

    def rect(self, x, y, width, height, fill, stroke="none", radius=3):
        self.parts.append(f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius}" fill="{fill}" '
                          f'stroke="{stroke}"/>')

    def text(self, x, y, text, anchor="middle", colour=INK, size=13, bold=False):
        weight = ' font-weight="bold"' if bold else ""
        self.parts.append(f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{colour}" font-size="{size}"{weight}>'
                          f"{html.escape(text)}</text>")

    def line(self, x1, y1, x2, y2, colour=GREY, arrow=False, width=1.3, dashed=False):
        end = ' marker-end="url(#head)"' if arrow else ""
        dash = ' stroke-dasharray="4 3"' if dashed else ""
        self.parts.append(f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{colour}" '
                          f'stroke-width="{width:g}"{dash}{end}/>')

    def svg(self):
        return "\n".join([*self.parts, "</svg>\n"])


FIGURES = {}  # file name: function


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit("usage: draw.py [--check]")
    status = 0
    for name, draw in FIGURES.items():
        file, svg = book / "figures" / f"{name}.svg", draw().svg()
        if not check:
            file.write_text(svg)
        elif not file.exists() or file.read_text() != svg:
            print(f"docs/book/figures/{name}.svg is not what draw.py draws; run docs/book/draw.py")
            status = 1
    for file in sorted((book / "figures").glob("*.svg")):
        if file.stem not in FIGURES:
            print(f"docs/book/figures/{file.name} is not drawn by draw.py")
            status = 1
    sys.exit(status)


main()
