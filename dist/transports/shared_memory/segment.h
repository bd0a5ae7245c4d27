#pragma once
// Segment: memory that several ranks of one machine have mapped.
//
// One rank makes it and tells the others its name; they open it by that name, and from then on
// nothing but their mappings holds it. It has never been in a file system, so nothing is left
// behind by a rank that is killed, and no mount's size limits it. Ranks that are threads of one
// process share one mapping.

#include <cstddef>
#include <memory>
#include <string>

namespace rondo::dist {

class Segment {
 public:
  /// New memory, all zeros, taken from the machine page by page as it is first written. Throws
  /// CommError where the system has none to give.
  static std::shared_ptr<Segment> create(std::size_t bytes);
  /// The segment that a rank of this machine has created, and not yet closed. Throws CommError when
  /// there is none of that name to be had: on another machine, or in a container of its own.
  static std::shared_ptr<Segment> open(const std::string& name);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  /// One line; only the creator knows it.
  const std::string& name() const { return name_; }
  /// Nobody can open it any more.
  void close();

  char* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  Segment(int file, std::size_t bytes);
  std::string name_;
  int file_ = -1;
  char* mapping_ = nullptr;  // a page with the token, then the data
  char* data_ = nullptr;
  std::size_t bytes_;
};

}  // namespace rondo::dist
