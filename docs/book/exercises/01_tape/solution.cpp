// The nodes of the program in start.cpp. w is used twice, but all uses of a leaf share one node.
// x and y need no gradient, so they have no node.
#include <map>
#include <string>

std::map<std::string, int> predict() {
  return {{"linear", 1}, {"sub", 1}, {"square", 2}, {"mean", 1},
          {"sum", 1},    {"add", 1}, {"mul", 1},    {"accumulate_grad", 2}};
}
