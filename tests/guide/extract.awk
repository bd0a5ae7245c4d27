# extract.awk -v out=FOLDER -v name=NAME -v by=page|section FILE.md: turns the C++ of a Markdown file into programs.
#
# A page, or each of its sections (a line that begins with "## "), becomes one program: out/NAME.cpp, or
# out/NAME_section.cpp. It is made from the fenced blocks in order: ```cpp has statements, which go into main; ```cpp
# global has definitions, which go above it. ```cpp program is a complete program of its own, whose name ends in
# _program. Other blocks are not compiled. #line makes the compiler's messages refer to the document. The text after
# "//>" is a line that the program must print; all of these lines go into a file .expected next to the program. Prints
# the names of the programs it wrote.
function write_program(path, text, lines) {
  printf "%s", text > (out "/" path ".cpp")
  close(out "/" path ".cpp")
  printf "%s", lines > (out "/" path ".expected")
  close(out "/" path ".expected")
  print path
}
function finish(    path) {
  path = name (section == "" ? "" : "_" section)
  if (globals != "" || statements != "")
    write_program(path, "#include <rondo/rondo.h>\n\n#include <iostream>\n\nnamespace rd = rondo;\nnamespace nn = rondo::nn;\n" \
                  "namespace optim = rondo::optim;\nusing rondo::Tensor;\n\n" globals "\nint main() {\n" statements "return 0;\n}\n", expected)
  if (program != "") write_program(path "_program", program, program_expected)
  globals = statements = program = expected = program_expected = ""
}
!block && /^## / && by == "section" {
  finish()
  section = tolower($0)
  sub(/^## +/, "", section)
  gsub(/[^a-z0-9]+/, "_", section)
  sub(/_$/, "", section)
  next
}
!block && /^```cpp/ {
  block = ($2 == "global") ? "global" : ($2 == "program") ? "program" : "statements"
  line = "#line " (FNR + 1) " \"" FILENAME "\"\n"
  if (block == "global") globals = globals line
  else if (block == "program") program = program line
  else statements = statements line
  next
}
block && /^```/ { block = ""; next }
block == "program" && match($0, "//> ") { program_expected = program_expected substr($0, RSTART + 4) "\n" }
block && block != "program" && match($0, "//> ") { expected = expected substr($0, RSTART + 4) "\n" }
block == "global" { globals = globals $0 "\n" }
block == "program" { program = program $0 "\n" }
block == "statements" { statements = statements $0 "\n" }
END { finish() }
