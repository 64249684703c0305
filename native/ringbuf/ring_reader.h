// SPDX-License-Identifier: Apache-2.0
// The state shared by the thread that waits for a ring and the event loop that delivers its
// records.
#ifndef FAIRLEAD_RING_READER_H_
#define FAIRLEAD_RING_READER_H_

#include <bpf/libbpf.h>
#include <napi.h>
#include <pthread.h>

#include <deque>
#include <mutex>
#include <vector>

#include "system/fd.h"

namespace fairlead {

// One thread waits for the ring, copies records into a bounded queue and asks the loop to come; the
// loop takes some; after a rest the thread asks again if there is more. While the queue is full the
// ring itself fills, and the program that writes to it learns so from bpf_ringbuf_reserve.
class RingReader {
 public:
  ~RingReader();
  // False with errno set if the map cannot be read.
  bool Open(int map_fd);
  // Starts the thread, which calls `notify`; a positive errno on failure.
  int Start(napi_threadsafe_function notify);
  // Ends the thread; records still queued are dropped. Idempotent.
  void Stop();
  // On the event loop: calls `on_record` for a bounded number of records.
  void Deliver(Napi::Env env, Napi::Function on_record);

 private:
  using Record = std::vector<uint8_t>;
  static void* Main(void* self);
  static int Keep(void* self, void* data, size_t size);
  void Run();
  bool HasRoom();
  void Notify();
  void EndRest();
  void Release();
  void Wake();
  std::vector<Record> Take();

  Fd map_;
  Fd wake_;
  ring_buffer* ring_ = nullptr;
  napi_threadsafe_function notify_ = nullptr;
  pthread_t thread_ = {};
  bool is_stopped_ = true;  // the event loop's own view
  std::mutex mutex_;        // guards all below
  std::deque<Record> queue_;
  size_t queued_bytes_ = 0;
  bool is_notified_ = false;  // a turn of the loop is asked for and not over
  bool is_resting_ = false;   // that turn is over, the next may be asked for after a rest
  bool must_end_ = false;
};

}  // namespace fairlead

#endif  // FAIRLEAD_RING_READER_H_
