#pragma once
// Text from elsewhere (files, other processes, the environment) on its way to a terminal.

#include <string>
#include <string_view>

namespace rondo {

/// `text` without what a terminal would obey: control characters, which move the cursor, hide or
/// recolour what was written, marks that change the direction of writing, and bytes that are not
/// UTF-8 become escapes, \n, \x1b, \u202e. Characters of ASCII in `keep` stay, as the line feeds of
/// an error of several lines do: printable(text, "\n").
std::string printable(std::string_view text, std::string_view keep = {});

}  // namespace rondo
