#!/bin/sh
# Does check.sh detect violations? Creates one violation after another in a scratch tree.
set -eu
check=$(cd "$(dirname "$0")" && pwd)/check.sh
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
for folder in tensor/cpu autograd nn optim data io dist train extras; do mkdir -p "$tree/$folder"; done

failures=0
# expect LINE-THAT-MUST-APPEAR|"" FILE INCLUDE-LINE
expect() {
  printf '// head\n%s\n' "$3" >"$tree/$2"
  if output=$("$check" "$tree"); then found=""; else found=$output; fi
  rm "$tree/$2"
  case $found in
  "$1"*) if [ -n "$1" ] || [ -z "$found" ]; then return; fi ;;
  esac
  echo "$2 with '$3': expected '$1', got '$found'"
  failures=1
}

expect "" nn/a.h '#include "tensor/tensor.h"'
expect "" train/a.cpp '#include "data/loader.h"'
expect "" tensor/cpu/a.h '#include <dnnl.hpp>'
expect "" tensor/a.cpp '#include "tensor/cpu/allocator.h"'
expect "" nn/a.h '#include <data/of_somebody_else' # not an include of anything
expect "tensor/a.cpp:2: tensor may not include autograd" tensor/a.cpp '#include "autograd/node.h"'
expect "nn/a.h:2: nn may not include optim" nn/a.h '  #  include "optim/sgd.h"'
expect "data/a.cpp:2: data may not include nn" data/a.cpp '#include "nn/module.h"'
expect "io/a.cpp:2: io may not include dist" io/a.cpp '#include "dist/data_parallel/ddp.h"'
expect "dist/a.cpp:2: dist may not include data" dist/a.cpp '#include "data/sampler.h"'
expect "optim/a.cpp:2: optim may not include train" optim/a.cpp '#include "train/trainer.h"'
expect "dist/a.h:2: a public header includes <mpi.h>" dist/a.h '#include <mpi.h>'
expect "data/a.h:2: a public header includes <png.h>" data/a.h '#include <png.h>'
expect "nn/a.h:2: a public header includes the private tensor/cpu/b.h" nn/a.h '#include "tensor/cpu/b.h"'
expect "io/a.h:2: a public header includes the private io/protobuf/b.h" io/a.h '#include "io/protobuf/b.h"'
expect "io/a.h:2: a public header includes <onnx.pb.h>" io/a.h '#include "onnx.pb.h"'
expect "nn/a.cpp:2: inside rondo" nn/a.cpp '#include <rondo/nn/module.h>'
expect "nn/a.h:2: std::vector without <vector>" nn/a.h 'std::vector<int> x;'
expect "" nn/a.h '// of std::vector'
printf '#include <vector>\n' >"$tree/nn/has.h"
expect "nn/a.cpp:3: std::mutex without <mutex>" nn/a.cpp "$(printf '#include "nn/has.h"\nstd::vector<std::mutex> x;')"
expect "" nn/a.cpp "$(printf '#include "nn/has.h"\nstd::vector<int> x;')"
echo '// of own.cpp' >"$tree/nn/own.h"
expect "" nn/own.cpp '#include "nn/own.h"'
expect "" nn/other.cpp '#include "nn/module.h"'
expect "nn/own.cpp:2: its own nn/own.h comes first" nn/own.cpp '#include "nn/module.h"'
exit $failures
