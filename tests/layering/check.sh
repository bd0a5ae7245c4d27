#!/bin/sh
# check.sh ROOT: fails, naming file and line, on an #include that violates the layers
#
#   tensor <- autograd <- nn <- optim;  data -> tensor;  io -> nn, optim;
#   dist -> autograd, nn, optim;  train -> all of these;  extras -> all; no other folder includes extras
#
# on a header that brings a heavy or foreign header (MPI, oneDNN, CUDA, CLI11, …) to everyone who
# includes it, on a public header that includes one of a private folder (cpu, cuda, mpi, nccl,
# protobuf), which is not installed, and on an x.cpp that does not include its own x.h before all else.
#
# It also fails on a file that uses a common name of the standard library without its header. The file, or a header
# of rondo that it includes, must include that header. The build would not notice, because it precompiles these
# headers.
cd "$1" || exit 2
status=0
# shellcheck disable=SC2016  # the dollars are awk's
find tensor autograd nn optim data io dist train extras \
  \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) -type f | sort | xargs awk '
  BEGIN {
    may["tensor"] = " tensor "
    may["autograd"] = " tensor autograd "
    may["nn"] = " tensor autograd nn "
    may["optim"] = " tensor autograd nn optim "
    may["data"] = " tensor data "
    may["io"] = " tensor autograd nn optim io "
    may["dist"] = " tensor autograd nn optim dist "
    may["train"] = " tensor autograd nn optim data io dist train "
    may["extras"] = may["train"] "extras "
    heavy = "^(mpi\\.h|dnnl.*|oneapi/.*|cuda.*|cudnn.*|cublas.*|nccl.*|curl/.*|archive.*|openssl/.*|zlib\\.h|jpeglib\\.h|jerror\\.h|png\\.h|.*\\.pb\\.h|CLI/.*|nlohmann/.*|spdlog/.*)$"
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
    public = FILENAME ~ /\.h$/ && FILENAME !~ /\/(cpu|cuda|mpi|nccl|protobuf|doctor)\//
    if (public && path ~ heavy) complain("a public header includes <" path ">")
    if (path ~ /^rondo\//) { complain("inside rondo, headers are named as \"folder/file.h\", not <" path ">"); next }
    n = split(path, to, "/")
    if (n < 2 || !(to[1] in may)) next
    if (index(may[at[1]], " " to[1] " ") == 0) complain(at[1] " may not include " to[1] " (" path ")")
    if (public && path ~ /\/(cpu|cuda|mpi|nccl|protobuf)\//) complain("a public header includes the private " path)
  }
  END { exit bad }
' || status=1

find tensor autograd nn optim data io dist train extras \( -name '*.h' -o -name '*.cpp' \) -type f | sort | xargs awk '
  function needs(header, names,    list, i, n) {
    n = split(names, list, " ")
    for (i = 1; i <= n; ++i) header_of[list[i]] = header
  }
  BEGIN {
    needs("algorithm", "sort stable_sort copy copy_n fill fill_n find find_if any_of all_of none_of transform clamp lower_bound upper_bound min_element max_element reverse rotate partial_sort nth_element")
    needs("array", "array"); needs("atomic", "atomic"); needs("chrono", "chrono"); needs("deque", "deque")
    needs("cmath", "sqrt log exp pow isnan isinf isfinite floor ceil tanh lround nearbyint log2 fabs")
    needs("condition_variable", "condition_variable"); needs("cstring", "memcpy memset memcmp memmove strlen strcmp strerror")
    needs("filesystem", "filesystem"); needs("fstream", "ifstream ofstream fstream"); needs("functional", "function")
    needs("map", "map"); needs("memory", "unique_ptr shared_ptr weak_ptr make_unique make_shared")
    needs("mutex", "mutex lock_guard unique_lock scoped_lock call_once once_flag"); needs("numeric", "accumulate iota gcd lcm")
    needs("optional", "optional nullopt"); needs("set", "set"); needs("span", "span"); needs("thread", "thread this_thread")
    needs("sstream", "ostringstream istringstream stringstream"); needs("string", "string to_string")
    needs("string_view", "string_view"); needs("variant", "variant visit get_if holds_alternative monostate")
    needs("vector", "vector")
  }
  /^[ \t]*#[ \t]*include/ {
    if (match($0, /[<"][^>"]*[>"]/)) includes[FILENAME] = includes[FILENAME] " " substr($0, RSTART + 1, RLENGTH - 2)
    next
  }
  {
    sub(/\/\/.*/, "")
    for (line = $0; match(line, /std::[a-z_0-9]+/); line = substr(line, RSTART + RLENGTH)) {
      name = substr(line, RSTART + 5, RLENGTH - 5)
      if (name in header_of && !((FILENAME, header_of[name]) in named)) {
        named[FILENAME, header_of[name]] = FILENAME ":" FNR ": std::" name " without <" header_of[name] ">"
      }
    }
  }
  # Whether `file` includes `wanted`, directly or indirectly.
  function reaches(file, wanted, depth,    list, i, n) {
    if ((file, wanted) in known) return known[file, wanted]
    known[file, wanted] = 0
    n = split(includes[file], list, " ")
    for (i = 1; i <= n; ++i) {
      if (list[i] == wanted || reaches(list[i], wanted)) return known[file, wanted] = 1
    }
    return 0
  }
  END {
    for (key in named) {
      split(key, at, SUBSEP)
      if (!reaches(at[1], at[2])) { print named[key]; bad = 1 }
    }
    exit bad
  }
' || status=1
exit $status
