// Which nodes does this program put on the tape?
//
//   const Tensor x = rand({8, 2}), y = rand({8, 4});
//   Tensor w = rand({4, 2}).requires_grad_(), b = rand({4}).requires_grad_();
//   Tensor h = linear(x, w, b);
//   Tensor error = mean(square(h - y));
//   Tensor penalty = sum(square(w));
//   Tensor loss = error + penalty * 0.01;
#include <map>
#include <string>

std::map<std::string, int> predict() {
  // One for each line, and one accumulate_grad for each use of a parameter.
  return {{"linear", 1}, {"sub", 1}, {"square", 2}, {"mean", 1},
          {"sum", 1},    {"add", 1}, {"mul", 1},    {"accumulate_grad", 3}};
}
