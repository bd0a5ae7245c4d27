#pragma once
// HomeProcess: the process in which an object was created.
//
// After fork() the child has a copy of every object, but not the threads and connections behind it.
// The usual cleanup would be wrong in the child: joining a thread that does not run waits forever,
// and so does MPI_Finalize; a goodbye message would be sent in the parent's name. So exit handlers,
// and destructors of objects that have a thread or hold a file, first check that they run in their
// home process.

#include <sys/types.h>
#include <unistd.h>

#include <cstdlib>
#include <new>

namespace rondo {

class HomeProcess {
 public:
  /// False in a child process that was forked after this object was created.
  bool is_here() const { return getpid() == process_; }

 private:
  pid_t process_ = getpid();
};

/// std::atexit for this process only, not for forked children. Registers each `f` once.
template <void (*f)()>
void at_exit_here() {
  static const HomeProcess home;
  static const int registered = std::atexit([] {
    if (home.is_here()) f();
  });
  static_cast<void>(registered);
}

/// For a forked child: constructs x anew without running its destructor. A mutex may have been
/// locked at the time of the fork, and a condition variable's destructor may wait for waiters that
/// do not exist in the child.
template <class... T>
void renew(T&... x) {
  (new (&x) T(), ...);
}

}  // namespace rondo
