#pragma once
// Segment: memory that several ranks of one machine have mapped.
//
// One rank creates the segment and tells the others its name. They open it by that name; from then
// on only their mappings keep it alive. It is never in a file system, so a rank that is killed
// leaves nothing behind, and no mount's size limits it. Ranks that are threads of one process share
// one mapping.

#include <cstddef>
#include <memory>
#include <string>

namespace rondo::dist {

class Segment {
 public:
  /// New memory, all zeros; the kernel provides each page when it is first written. Throws
  /// CommError if the system has no memory.
  static std::shared_ptr<Segment> create(std::size_t bytes);
  /// Opens the segment that a rank of this machine has created and not yet closed. Throws CommError
  /// if the segment does not exist here: on another machine, or in another container.
  static std::shared_ptr<Segment> open(const std::string& name);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  /// One line of text. Only the creator knows it.
  const std::string& name() const { return name_; }
  /// From here on no rank can open it.
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
