#pragma once
// What start.cpp and solution.cpp define, and what they may use.

#include <string>
#include <string_view>

/// A folder on a disk. The machine may lose power after any of these calls.
class Disk {
 public:
  virtual ~Disk() = default;
  /// Creates an empty file. An existing file of this name loses its contents.
  virtual void create(const std::string& name) = 0;
  /// Appends to a file. The bytes are in the system's memory; a power cut loses some of them.
  virtual void append(const std::string& name, std::string_view bytes) = 0;
  /// fsync of a file: returns when its bytes are on the disk.
  virtual void sync(const std::string& name) = 0;
  /// Gives the file `from` the name `to`, in place of the file that has it. A power cut may undo
  /// it.
  virtual void rename(const std::string& from, const std::string& to) = 0;
  /// fsync of the folder: returns when creations and renames are on the disk.
  virtual void sync_folder() = 0;
};

/// Replaces the file `name` by one that contains `bytes`. After a power cut at any time the file is
/// the old one or the new one; after `save` has returned it is the new one.
void save(Disk& disk, const std::string& name, std::string_view bytes);
