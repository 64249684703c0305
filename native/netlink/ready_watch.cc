// SPDX-License-Identifier: Apache-2.0
// See ready_watch.h. The thread never enters JavaScript and never waits for it, so that stopping it
// is short.
#include "netlink/ready_watch.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>

#include "binding/notify.h"

namespace fairlead {
namespace {

// A call made while the loop still serves the last one is served in the same turn, up to a thousand
// times; so the next call waits until that turn is certainly over.
constexpr int kRestMs = 1;

}  // namespace

bool ReadyWatch::Open(int fd) {
  fd_ = Fd::Duplicate(fd);
  wake_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  return fd_.is_valid() && wake_.is_valid();
}

void* ReadyWatch::Main(void* self) {
  static_cast<ReadyWatch*>(self)->Run();
  return nullptr;
}

int ReadyWatch::Start(napi_threadsafe_function notify) {
  notify_ = notify;
  int error = pthread_create(&thread_, nullptr, Main, this);
  is_stopped_ = error != 0;
  return error;
}

void ReadyWatch::Stop() {
  if (is_stopped_) return;
  is_stopped_ = true;
  must_end_ = true;
  Wake();
  pthread_join(thread_, nullptr);
  napi_release_threadsafe_function(notify_, napi_tsfn_abort);
  fd_.Reset();
  wake_.Reset();
}

void ReadyWatch::Wake() {
  eventfd_write(wake_.get(), 1);
}

// Waits for the descriptor, calls, then for the wake-up with which the loop says that it has read.
// POLLERR is no reason to stop: it says that a netlink socket has lost messages, and reading tells.
void ReadyWatch::Run() {
  pollfd waits[] = {{.fd = wake_.get(), .events = POLLIN, .revents = 0},
                    {.fd = fd_.get(), .events = POLLIN, .revents = 0}};
  while (!must_end_) {
    poll(waits, 2, -1);
    if (must_end_) return;
    if (waits[1].revents == 0) continue;
    if (napi_call_threadsafe_function(notify_, nullptr, napi_tsfn_nonblocking) != napi_ok) return;
    poll(waits, 1, -1);
    eventfd_t ignored = 0;
    eventfd_read(wake_.get(), &ignored);
    if (!must_end_) poll(waits, 1, kRestMs);
  }
}

void ReadyWatch::Deliver(Napi::Env env, Napi::Function on_ready) {
  if (is_stopped_) return;
  CallFromLoop(env, on_ready, 0, nullptr);
  if (!is_stopped_) Wake();
}

}  // namespace fairlead
