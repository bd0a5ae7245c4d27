// export_onnx without protobuf: an error that says how to install it.

#include "extras/onnx/onnx.h"
#include "tensor/error.h"

namespace rondo::io {

void export_onnx(const nn::ModelCall&, const std::string& path, const OnnxOptions&) {
  throw Error(concat(path,
                     " cannot be written: rondo was built without protobuf (apt-get install "
                     "libprotobuf-dev protobuf-compiler, and configure again)"));
}

}  // namespace rondo::io
