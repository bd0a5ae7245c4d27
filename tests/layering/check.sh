#!/bin/sh
# check.sh ROOT: fails, naming file and line, on an #include that goes against the layers
#
#   tensor <- autograd <- nn <- optim;  data -> tensor;  io -> nn, optim;
#   hub -> nn, data, io;  dist -> autograd, nn, optim;  train -> all
#
# on a header that brings a heavy or foreign header (MPI, oneDNN, CUDA, CLI11, …) to everyone who
# includes it, on a public header that includes one of a private folder (cpu, cuda, mpi, nccl,
# protobuf), which is not installed, and on an x.cpp that does not include its own x.h before all
# else, by which each compilation shows that the header stands on its own.
cd "$1" || exit 2
# shellcheck disable=SC2016  # the dollars are awk's
find tensor autograd nn optim data io hub dist train \
  \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) -type f | sort | xargs awk '
  BEGIN {
    may["tensor"] = " tensor "
    may["autograd"] = " tensor autograd "
    may["nn"] = " tensor autograd nn "
    may["optim"] = " tensor autograd nn optim "
    may["data"] = " tensor data "
    may["io"] = " tensor autograd nn optim io "
    may["dist"] = " tensor autograd nn optim dist "
    may["hub"] = " tensor autograd nn optim data io hub "
    may["train"] = " tensor autograd nn optim data io hub dist train "
    heavy = "^(mpi\\.h|pmix.*\\.h|dnnl.*|oneapi/.*|cuda.*|cudnn.*|cublas.*|nccl.*|curl/.*|archive.*|openssl/.*|zlib\\.h|jpeglib\\.h|jerror\\.h|png\\.h|.*\\.pb\\.h|CLI/.*|nlohmann/.*|spdlog/.*)$"
  }
  function is_there(path,    line, read) { read = (getline line < path); close(path); return read >= 0 }
  function complain(text) { printf "%s:%d: %s\n", FILENAME, FNR, text; bad = 1 }
  /^[ \t]*#[ \t]*include/ {
    path = $0
    if (!match(path, /[<"][^>"]*[>"]/)) next
    path = substr(path, RSTART + 1, RLENGTH - 2)
    if (FILENAME ~ /\.cpp$/ && FILENAME != first_seen_in) {
      first_seen_in = own = FILENAME
      sub(/\.cpp$/, ".h", own)
      if (path != own && is_there(own)) complain("its own " own " comes first, not " path)
    }
    split(FILENAME, at, "/")
    public = FILENAME ~ /\.h$/ && FILENAME !~ /\/(cpu|cuda|mpi|nccl|protobuf)\//
    if (public && path ~ heavy) complain("a public header includes <" path ">")
    if (path ~ /^rondo\//) { complain("inside rondo, headers are named as \"folder/file.h\", not <" path ">"); next }
    n = split(path, to, "/")
    if (n < 2 || !(to[1] in may)) next
    if (index(may[at[1]], " " to[1] " ") == 0) complain(at[1] " may not include " to[1] " (" path ")")
    if (public && path ~ /\/(cpu|cuda|mpi|nccl|protobuf)\//) complain("a public header includes the private " path)
  }
  END { exit bad }
'
