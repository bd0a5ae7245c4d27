#!/usr/bin/env python3
"""Checks the Markdown files, as scripts/docs.sh does, but without Sphinx.

    docs/check_pages.py    exit status 1 if a link leads nowhere, if a paragraph of the guide, the
                           reference or the book has more than five lines, if the contents of
                           docs/decisions.md lack a section, or if a source file that README.md says to read
                           does not name the next one
"""

import argparse
import pathlib
import re
import sys

root = pathlib.Path(__file__).parent.parent
PAGES = [*root.glob("*.md"), *root.glob("docs/**/*.md"), *root.glob("dist/**/*.md"), *root.glob("extras/**/*.md"), *root.glob("examples/**/*.md")]
faults = []
argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()


def without_code(text):
    return re.sub(r"^```.*?^```$", lambda m: "\n" * m.group().count("\n"), text, flags=re.S | re.M)


def anchors(page):
    """The anchors that a code host gives to headings."""
    headings = re.findall(r"^#+ (.*)", without_code(page.read_text()), re.M)
    return {re.sub(r"[^\w\- ]", "", h.lower().replace("`", "")).strip().replace(" ", "-") for h in headings}


for page in PAGES:
    name, text = page.relative_to(root), without_code(page.read_text())
    for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", text)):
        path, _, anchor = link.partition("#")
        if re.match(r"\w+:", link):
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            faults.append(f"{name}: {link} does not exist")
        elif anchor and anchor not in anchors(target):
            faults.append(f"{name}: {path or name} has no heading #{anchor}")
    if name.parts[:2] in (("docs", "guide"), ("docs", "reference"), ("docs", "book")):
        for paragraph in re.split(r"\n\n|\n(?=- |\d+\. )", text):
            lines = paragraph.strip("\n").split("\n")
            if len(lines) > 5 and not lines[0].startswith(("|", "    ")):
                faults.append(f"{name}: a paragraph of {len(lines)} lines: {lines[0]}")

decisions = without_code((root / "docs/decisions.md").read_text())
contents, _, sections = decisions.partition("\n## ")
for heading in re.findall(r"^###? (.*)", "## " + sections, re.M):
    if f"- [{heading}](#" not in contents:
        faults.append(f"docs/decisions.md: the contents lack {heading}")

row = re.search(r"\| read the sources \|(.*)\|", (root / "README.md").read_text()).group(1)
files = re.findall(r"`([\w/]+\.h)`", row)
for file, following in zip(files, files[1:]):
    said = re.search(r"// Read next: (.*?)\n(?!//)", (root / file).read_text(), re.S)
    if not said or following not in said.group(1):
        faults.append(f'{file}: README.md says to read {following} after it; write "Read next: {following}"')

print("\n".join(faults))
sys.exit(bool(faults))
