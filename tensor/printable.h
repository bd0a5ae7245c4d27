#pragma once
// Makes text from outside (files, other processes, the environment) safe to print on a terminal,
// and to copy from there to a shell.

#include <string>
#include <string_view>

namespace rondo {

/// `text` with everything escaped that a terminal would interpret: control characters (which move
/// the cursor, hide or recolour text), marks that change the writing direction, and bytes that are
/// not UTF-8. The escapes are `\n`, `\x1b`, `\u202e`. ASCII characters in `keep` stay as they are,
/// such as the line feeds of an error with several lines: printable(text, "\n").
std::string printable(std::string_view text, std::string_view keep = {});

/// `text` as one word of a command for a shell, in quotes if it needs them: for messages that
/// suggest a command.
std::string shell_word(std::string_view text);

}  // namespace rondo
