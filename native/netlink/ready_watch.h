// SPDX-License-Identifier: Apache-2.0
// A thread that waits until a descriptor is readable and then asks the event loop to come. It reads
// nothing: what has arrived stays in the kernel until the loop takes it.
#ifndef FAIRLEAD_READY_WATCH_H_
#define FAIRLEAD_READY_WATCH_H_

#include <napi.h>
#include <pthread.h>

#include <atomic>

#include "system/fd.h"

namespace fairlead {

class ReadyWatch {
 public:
  ~ReadyWatch() { Stop(); }
  // False with errno set on failure.
  bool Open(int fd);
  // Starts the thread, which calls `notify`; a positive errno on failure.
  int Start(napi_threadsafe_function notify);
  // Ends the thread; nothing is delivered afterwards. Idempotent.
  void Stop();
  // On the event loop: calls `on_ready`, which is to read all there is, then waits again.
  void Deliver(Napi::Env env, Napi::Function on_ready);

 private:
  static void* Main(void* self);
  void Run();
  void Wake();

  Fd fd_;
  Fd wake_;
  napi_threadsafe_function notify_ = nullptr;
  pthread_t thread_ = {};
  bool is_stopped_ = true;  // the event loop's own view
  std::atomic<bool> must_end_ = false;
};

}  // namespace fairlead

#endif  // FAIRLEAD_READY_WATCH_H_
