#pragma once
// A descriptor of the test's own cuDNN (host_cudnn.h): a type, and the attributes that were set.

#include <cstring>
#include <map>
#include <vector>

#include "tensor/cuda/cudnn.h"

namespace rondo::test {

struct Attribute {
  cudnnBackendAttributeType_t type;
  std::vector<char> bytes;
};

struct Node {
  cudnnBackendDescriptorType_t type;
  bool finalized = false;
  int engine = 0;  // of an engine (configuration): one of those below
  std::map<int, Attribute> attributes;

  template <class T>
  std::vector<T> all(int name) const {
    auto found = attributes.find(name);
    if (found == attributes.end()) return {};
    std::vector<T> values(found->second.bytes.size() / sizeof(T));
    std::memcpy(values.data(), found->second.bytes.data(), values.size() * sizeof(T));
    return values;
  }
  template <class T>
  T one(int name) const {
    auto values = all<T>(name);
    return values.empty() ? T{} : values[0];
  }
  const Node& node(int name) const {
    return *reinterpret_cast<Node*>(one<cudnnBackendDescriptor_t>(name));
  }
  bool has(int name) const { return attributes.contains(name); }
};

inline Node& of(cudnnBackendDescriptor_t d) { return *reinterpret_cast<Node*>(d); }

}  // namespace rondo::test
