"""Sphinx makes a site of the Markdown files: scripts/docs.sh.

The files stay readable on a code host: links between them are relative, and no file contains
directives. The order of the pages is only here.
"""

import pathlib
import re
import shutil
import sys

from pygments.lexers.special import TextLexer
from sphinx.errors import ExtensionError

project = "rondo"
html_title = "rondo"
extensions = ["myst_parser"]
root_doc = "README"
include_patterns = ["*.md", "docs/*.md", "docs/**/*.md", "dist/*.md", "dist/**/*.md", "extras/*.md",
                    "extras/**/*.md", "examples/**/*.md", "bench/*.md", "tests/ptx/*.md"]

myst_heading_anchors = 3  # the anchors of a code host, such as CONTRIBUTING.md#an-optimizer
suppress_warnings = [
    "misc.highlighting_failure",  # an ellipsis in C++
    "myst.header",                # a page that begins with a smaller heading
]

html_theme = "furo"  # narrow screens, light and dark
html_theme_options = {  # furo's own dark colours, which the package of Debian 12 has lost
    "dark_css_variables": {
        "color-problematic": "#ee5151",
        "color-foreground-primary": "#ffffffcc",
        "color-foreground-secondary": "#9ca0a5",
        "color-foreground-muted": "#81868d",
        "color-foreground-border": "#666666",
        "color-background-primary": "#131416",
        "color-background-secondary": "#1a1c1e",
        "color-background-hover": "#1e2124ff",
        "color-background-hover--transparent": "#1e212400",
        "color-background-border": "#303335",
        "color-background-item": "#444",
        "color-brand-primary": "#2b8cee",
        "color-brand-content": "#368ce2",
        "color-highlighted-background": "#083563",
        "color-highlight-on-target": "#333300",
    }
}
html_static_path = ["site/pages.css"]
html_css_files = ["pages.css"]
html_copy_source = False
html_show_copyright = False
templates_path = ["site"]  # sidebar/api.html
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/api.html",
        "sidebar/scroll-end.html",
    ]
}

# The navigation: titles, and the pages below them. A folder lists its README and all other pages.
NAVIGATION = {
    "Learn": ["docs/guide", "docs/book", "examples/ports"],
    "Look up": ["docs/reference", "docs/cluster"],
    "Understand": ["docs/architecture", "docs/decisions", "dist", "extras"],
    "Change": ["CONTRIBUTING", "tests/ptx", "CHANGELOG", "SECURITY"],
    "Measurements": ["docs/results", *(f"docs/results/{page}" for page in ("pytorch", "ranks", "models", "costs")), "docs/journal",
                     "docs/gpu", "bench/README"],
}
root = pathlib.Path(__file__).parent.parent
sys.path.insert(0, str(root / "docs/book"))
from check import place_of  # noqa: E402


def toctree(pages, caption=None):
    title = f":caption: {caption}\n" if caption else ""
    return "\n\n```{toctree}\n:hidden:\n" + title + "\n" + "\n".join("/" + p for p in pages) + "\n```\n"


def below(folder):
    """The pages of a folder except its README, and the READMEs of its subfolders."""
    files = [*(root / folder).glob("*.md"), *(root / folder).glob("*/README.md")]
    pages = sorted(str(file.relative_to(root).with_suffix("")) for file in files)
    return [page for page in pages if page != f"{folder}/README"]


def add_navigation(app, page, source):
    if page == root_doc:
        for caption, pages in NAVIGATION.items():
            pages = [f"{p}/README" if (root / f"{p}/README.md").exists() else p for p in pages]
            source[0] += toctree([p for p in pages if (root / f"{p}.md").exists()], caption)
    for pages in NAVIGATION.values():
        for folder in pages:
            if page == f"{folder}/README":
                source[0] += toctree(below(folder))


def link_step_page(app, page, source):
    """In a clone, docs/book/step.py is the script that writes a page. The site has the page (scripts/docs.sh)."""
    if page.startswith("docs/book/"):
        source[0] = re.sub(r"\[([^]]*)\]\(step\.py\)", r'<a href="step.html">\1</a>', source[0])


def include_excerpts(app, page, source):
    """The site takes each excerpt of the book from its file, with the lines' numbers. It is not built if the page shows other lines."""
    def included(match):
        path, language, block = match.groups()
        place = place_of(block.split("\n"), (root / path).read_text().split("\n"))
        if place is None:
            raise ExtensionError(f"{page}.md: {path} has no such lines:\n{block}")
        indent, parts = place
        return "\n".join(
            f"```{{literalinclude}} /{path}\n:caption: {path}\n:language: {language}\n:lines: {first}-{last}\n:lineno-match:\n"
            f":dedent: {indent}\n```" for first, last in parts)

    if page.startswith("docs/book/"):
        source[0] = re.sub(r"^<!-- excerpt: (\S+) -->\n```(\w+)\n(.*?)\n```$", included, source[0], flags=re.M | re.S)


def write_index(app, error):
    if error is None:
        out = pathlib.Path(app.outdir)
        shutil.copy(out / "README.html", out / "index.html")


def setup(app):
    app.add_config_value("navigation", NAVIGATION, "env")  # a change makes Sphinx read all pages again
    app.add_lexer("mermaid", TextLexer)  # a code host draws these figures
    app.connect("source-read", add_navigation)
    app.connect("source-read", link_step_page)
    app.connect("source-read", include_excerpts)
    app.connect("build-finished", write_index)
