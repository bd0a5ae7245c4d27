// All layers, in the order of forward.
#include "exercise.h"

void Net::visit(rondo::nn::Visitor& v) {
  v.child("first", first);
  v.child("second", second);
  v.child("last", last);
}
