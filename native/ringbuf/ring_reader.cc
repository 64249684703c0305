// SPDX-License-Identifier: Apache-2.0
// See ring_reader.h. The thread never enters JavaScript and never waits for it, so that stopping it
// (from close(), from the callback itself, or with the environment) is short.
#include "ringbuf/ring_reader.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <utility>

#include "binding/args.h"
#include "binding/notify.h"

namespace fairlead {
namespace {

constexpr size_t kQueueRecords = 4096;
constexpr size_t kQueueBytes = 1 << 20;
constexpr size_t kRecordsPerTurn = 256;
// A call made while the loop still serves the last one is served in the same turn, up to a thousand
// times; so the next call waits until that turn is certainly over.
constexpr int kRestMs = 1;

void Call(Napi::Env env, Napi::Function on_record, const std::vector<uint8_t>& record) {
  Napi::HandleScope scope(env);
  napi_value argument = CopyBytes(env, record.data(), record.size());
  if (argument == nullptr) return;  // the environment is ending
  CallFromLoop(env, on_record, 1, &argument);
}

}  // namespace

RingReader::~RingReader() {
  Stop();
  Release();
}

// Now and not in the destructor: the threadsafe function keeps this object for some turns of the
// loop.
void RingReader::Release() {
  ring_buffer__free(std::exchange(ring_, nullptr));
  map_.Reset();
  wake_.Reset();
}

bool RingReader::Open(int map_fd) {
  map_ = Fd::Duplicate(map_fd);
  wake_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!map_.is_valid() || !wake_.is_valid()) return false;
  ring_ = ring_buffer__new(map_.get(), Keep, this, nullptr);
  return ring_ != nullptr;
}

void* RingReader::Main(void* self) {
  static_cast<RingReader*>(self)->Run();
  return nullptr;
}

// Not std::thread, which can report too many threads only by throwing.
int RingReader::Start(napi_threadsafe_function notify) {
  notify_ = notify;
  int error = pthread_create(&thread_, nullptr, Main, this);
  is_stopped_ = error != 0;
  return error;
}

void RingReader::Stop() {
  if (is_stopped_) return;
  is_stopped_ = true;
  {
    std::lock_guard lock(mutex_);
    must_end_ = true;
    queue_.clear();
  }
  Wake();
  pthread_join(thread_, nullptr);
  napi_release_threadsafe_function(notify_, napi_tsfn_abort);
  Release();
}

void RingReader::Wake() {
  eventfd_write(wake_.get(), 1);
}

bool RingReader::HasRoom() {
  return queue_.size() < kQueueRecords && queued_bytes_ < kQueueBytes;
}

// With mutex_ held.
void RingReader::Notify() {
  if (is_notified_ || queue_.empty()) return;
  is_notified_ = napi_call_threadsafe_function(notify_, nullptr, napi_tsfn_nonblocking) == napi_ok;
}

// A negative result makes libbpf stop after this record, which it counts as consumed.
int RingReader::Keep(void* self, void* data, size_t size) {
  auto* reader = static_cast<RingReader*>(self);
  auto* bytes = static_cast<const uint8_t*>(data);
  std::lock_guard lock(reader->mutex_);
  if (reader->must_end_) return -ECANCELED;
  reader->queue_.emplace_back(bytes, bytes + size);
  reader->queued_bytes_ += size;
  reader->Notify();
  return reader->HasRoom() ? 0 : -ENOBUFS;
}

void RingReader::Run() {
  pollfd waits[] = {{.fd = wake_.get(), .events = POLLIN, .revents = 0},
                    {.fd = -1, .events = POLLIN, .revents = 0}};
  for (;;) {
    bool is_resting = false;
    {
      std::lock_guard lock(mutex_);
      if (must_end_) return;
      is_resting = is_resting_;
      eventfd_t ignored = 0;
      eventfd_read(wake_.get(), &ignored);
      waits[1].fd = is_resting || !HasRoom() ? -1 : ring_buffer__epoll_fd(ring_);
    }
    int count = poll(waits, 2, is_resting ? kRestMs : -1);
    if (is_resting) EndRest();
    if (count > 0 && waits[1].fd >= 0 && waits[1].revents != 0) ring_buffer__consume(ring_);
  }
}

void RingReader::EndRest() {
  std::lock_guard lock(mutex_);
  is_resting_ = false;
  is_notified_ = false;
  Notify();
}

std::vector<RingReader::Record> RingReader::Take() {
  std::vector<Record> taken;
  std::lock_guard lock(mutex_);
  while (!queue_.empty() && taken.size() < kRecordsPerTurn) {
    queued_bytes_ -= queue_.front().size();
    taken.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  return taken;
}

void RingReader::Deliver(Napi::Env env, Napi::Function on_record) {
  if (is_stopped_) return;
  for (const Record& record : Take()) {
    Call(env, on_record, record);
    if (is_stopped_) return;
  }
  std::lock_guard lock(mutex_);
  is_resting_ = true;
  Wake();
}

}  // namespace fairlead
