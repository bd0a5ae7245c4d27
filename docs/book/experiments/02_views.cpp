// Which results share the memory of their input: the place of their first element, and strides.
#include <rondo/rondo.h>

#include <iomanip>
#include <iostream>

using rondo::Tensor;

int main() {
  const Tensor x = rondo::arange(12).to(rondo::f32).reshape({3, 4});
  const char* start = static_cast<const char*>(x.data_ptr());
  const auto show = [&](const char* what, const Tensor& y) {
    std::cout << std::left << std::setw(26) << what << std::setw(10) << rondo::concat(y.shape())
              << std::setw(10) << rondo::concat(y.strides());
    if (y.storage() == x.storage())
      std::cout << "view, byte " << static_cast<const char*>(y.data_ptr()) - start << "\n";
    else
      std::cout << "copy\n";
  };
  std::cout << "                          shape     strides\n";
  show("x", x);
  show("x.transpose(0, 1)", x.transpose(0, 1));
  show("x.narrow(1, 1, 2)", x.narrow(1, 1, 2));
  show("x[2]", x[2]);
  show("x.select(1, 3)", x.select(1, 3));
  show("x[0].expand({3, 4})", x[0].expand({3, 4}));
  show("x.reshape({2, 6})", x.reshape({2, 6}));
  show("x.t().reshape({2, 6})", x.t().reshape({2, 6}));
  show("x.contiguous()", x.contiguous());
  show("x.t().contiguous()", x.t().contiguous());
  show("x.flip(0)", x.flip(0));

  const Tensor column = x.select(1, 3);
  const auto before = x.version();
  column.zero_();
  std::cout << "\ncolumn.zero_() wrote through the view: x[0] is " << x[0].to_vector()[0] << ", "
            << x[0].to_vector()[1] << ", " << x[0].to_vector()[2] << ", " << x[0].to_vector()[3]
            << ";\nthe version of x went from " << before << " to " << x.version() << "\n";
}
