# extract.awk -v out=FOLDER -v prefix=NAME FILE.md: turns the C++ of a Markdown file into programs.
#
# Each section (a line that begins with "## ") becomes one program, out/NAME_section.cpp, made from its fenced
# blocks in order: ```cpp has statements, which go into main; ```cpp global has definitions, which go above it;
# ```cpp program is a complete program. Other blocks are not compiled. #line makes the compiler's messages refer to
# the document. The text after "//>" is a line that the program must print; all of these lines go into
# out/NAME_section.expected. Prints the names of the programs it wrote.
function finish() {
  if (section == "" || (globals == "" && statements == "" && program == "")) return
  file = out "/" prefix "_" section ".cpp"
  if (program != "") {
    printf "%s", program > file
  } else {
    printf "#include <rondo/rondo.h>\n\n#include <iostream>\n\n" > file
    printf "namespace rd = rondo;\nnamespace nn = rondo::nn;\nnamespace optim = rondo::optim;\nusing rondo::Tensor;\n\n" > file
    printf "%s\nint main() {\n%s}\n", globals, statements > file
  }
  close(file)
  printf "%s", expected > (out "/" prefix "_" section ".expected")
  close(out "/" prefix "_" section ".expected")
  print prefix "_" section
}
BEGIN { section = "" }
!block && /^##? / {
  finish()
  globals = statements = program = expected = ""
  section = tolower($0)
  sub(/^##? +/, "", section)
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
block && match($0, "//> ") { expected = expected substr($0, RSTART + 4) "\n" }
block == "global" { globals = globals $0 "\n" }
block == "program" { program = program $0 "\n" }
block == "statements" { statements = statements $0 "\n" }
END { finish() }
