#!/usr/bin/env bash
# Builds the documents and the API reference as a site: build/docs/index.html.
#
#   scripts/docs.sh [FOLDER]     FOLDER is build/docs unless given
#
# Sphinx makes pages of the Markdown files (docs/conf.py), and Doxygen of the comments in the public headers (Doxyfile),
# in FOLDER/api. A warning is an error: a link to a page or heading that does not exist, a page that no menu shows, a
# comment that Doxygen does not understand. If a tool is missing, it says so and exits with 77.
set -euo pipefail
# shellcheck source=scripts/help.sh
. "$(dirname "${BASH_SOURCE[0]}")/help.sh"
at_most 1 "$@"
out=$(realpath -m "${1:-"$(dirname "${BASH_SOURCE[0]}")/../build/docs"}")
cd "$(dirname "${BASH_SOURCE[0]}")/.."

missing() {
  echo "docs.sh: $1 is missing; scripts/setup.sh test installs it" >&2
  exit 77
}
command -v doxygen >/dev/null || missing doxygen
sphinx=$(command -v sphinx-build) || missing sphinx-build
python=$(sed -n '1s/^#! *//p' "$sphinx") # the Python that has Sphinx's modules
$python -c 'import myst_parser, furo' 2>/dev/null || missing "myst-parser or furo"

mkdir -p "$out"
"$sphinx" -q -W --keep-going -j auto -c docs -d "$out/.doctrees" -b html . "$out"
docs/book/step.py docs/book/figures/11_profile.json docs/book/figures/11_overlap.json "$out/docs/book/step.html"
style=
if printf "%s\n1.9.5\n" "$(doxygen --version | cut -d" " -f1)" | sort -VC; then # older: without a dark mode
  style="HTML_EXTRA_STYLESHEET = docs/site/api.css"
fi
printf '%s\n%s\n' "$(cat Doxyfile)" "$style" | RONDO_DOCS=$out doxygen -
echo "docs.sh: $out/index.html"
