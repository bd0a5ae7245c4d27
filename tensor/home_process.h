#pragma once
// HomeProcess: the process in which an object was made.
//
// After fork() the child has a copy of every object, but no thread and no connection behind it.
// What it did at its end would be wrong: to join a thread that does not run waits for ever, and so
// does MPI_Finalize; a goodbye would be said in the parent's name. So exit handlers, and
// destructors of objects that have a thread, ask whether they are at home.

#include <sys/types.h>
#include <unistd.h>

#include <cstdlib>
#include <new>

namespace rondo {

class HomeProcess {
 public:
  /// False in a child that was forked since this was made.
  bool is_here() const { return getpid() == process_; }

 private:
  pid_t process_ = getpid();
};

/// std::atexit, for this process and none that it forks. Once for each `f`.
template <void (*f)()>
void at_exit_here() {
  static const HomeProcess home;
  static const int registered = std::atexit([] {
    if (home.is_here()) f();
  });
  static_cast<void>(registered);
}

/// In a forked child: x as if just made, without a destructor. A mutex may have been locked when
/// the process forked, and a condition variable whose waiters are not there waits for them.
template <class... T>
void renew(T&... x) {
  (new (&x) T(), ...);
}

}  // namespace rondo
