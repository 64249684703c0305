// SPDX-License-Identifier: Apache-2.0
// A file descriptor with one owner.
#ifndef FAIRLEAD_FD_H_
#define FAIRLEAD_FD_H_

#include <fcntl.h>
#include <unistd.h>

#include <utility>

namespace fairlead {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd() { Reset(); }

  static Fd Duplicate(int fd) { return Fd(fcntl(fd, F_DUPFD_CLOEXEC, 3)); }

  bool is_valid() const { return fd_ >= 0; }
  int get() const { return fd_; }
  // To another owner.
  int Release() { return std::exchange(fd_, -1); }
  void Reset() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }

 private:
  int fd_ = -1;
};

}  // namespace fairlead

#endif  // FAIRLEAD_FD_H_
