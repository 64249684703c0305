// SPDX-License-Identifier: Apache-2.0
// See ringbuf.h. The thread never enters JavaScript and never waits for it, so that stopping it
// (from close(), from the callback itself, or with the environment) is short.
#include "ringbuf.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>

#include "map.h"

namespace fairlead {
namespace {

constexpr size_t kQueueRecords = 4096;
constexpr size_t kQueueBytes = 1 << 20;
constexpr size_t kRecordsPerTurn = 256;

// An exception of the callback is the user's: hand it to 'uncaughtException' and go on.
void Call(Napi::Env env, Napi::Function on_record, const std::vector<uint8_t>& record) {
  Napi::HandleScope scope(env);
  Napi::Uint8Array bytes = Napi::Uint8Array::New(env, record.size());
  std::copy(record.begin(), record.end(), bytes.Data());
  napi_value argument = bytes;
  napi_value thrown = nullptr;
  if (napi_call_function(env, env.Undefined(), on_record, 1, &argument, nullptr) ==
          napi_pending_exception &&
      napi_get_and_clear_last_exception(env, &thrown) == napi_ok) {
    napi_fatal_exception(env, thrown);
  }
}

void OnNotify(napi_env env, napi_value on_record, void* context, void*) {
  if (env == nullptr) return;  // the environment is going away
  // A copy: the callback may close the ring.
  std::shared_ptr<RingReader> reader = *static_cast<std::shared_ptr<RingReader>*>(context);
  reader->Deliver(env, Napi::Function(env, on_record));
}

void StopWithEnvironment(void* reader) {
  static_cast<RingReader*>(reader)->Stop();
}

}  // namespace

RingReader::~RingReader() {
  Stop();
  ring_buffer__free(ring_);
}

bool RingReader::Open(int map_fd) {
  map_ = Fd::Duplicate(map_fd);
  wake_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!map_.is_valid() || !wake_.is_valid()) return false;
  ring_ = ring_buffer__new(map_.get(), Keep, this, nullptr);
  return ring_ != nullptr;
}

void RingReader::Start(napi_threadsafe_function notify) {
  notify_ = notify;
  is_stopped_ = false;
  thread_ = std::thread([this] { Run(); });
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
  thread_.join();
  napi_release_threadsafe_function(notify_, napi_tsfn_abort);
}

void RingReader::Wake() {
  eventfd_write(wake_.get(), 1);
}

bool RingReader::HasRoom() {
  return queue_.size() < kQueueRecords && queued_bytes_ < kQueueBytes;
}

// With mutex_ held, on the thread or on the loop.
void RingReader::Notify() {
  if (is_notified_ || queue_.empty()) return;
  is_notified_ = napi_call_threadsafe_function(notify_, nullptr, napi_tsfn_nonblocking) == napi_ok;
}

// A negative answer makes libbpf stop after this record, which it counts as taken.
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
    {
      std::lock_guard lock(mutex_);
      if (must_end_) return;
      waits[1].fd = HasRoom() ? ring_buffer__epoll_fd(ring_) : -1;
    }
    if (poll(waits, 2, -1) < 0) continue;  // EINTR
    eventfd_t ignored = 0;
    if (waits[0].revents != 0) eventfd_read(wake_.get(), &ignored);
    if (waits[1].fd >= 0 && waits[1].revents != 0) ring_buffer__consume(ring_);
  }
}

std::vector<RingReader::Record> RingReader::Take() {
  std::vector<Record> taken;
  std::lock_guard lock(mutex_);
  bool was_full = !HasRoom();
  while (!queue_.empty() && taken.size() < kRecordsPerTurn) {
    queued_bytes_ -= queue_.front().size();
    taken.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  if (was_full) Wake();
  return taken;
}

void RingReader::Deliver(Napi::Env env, Napi::Function on_record) {
  for (const Record& record : Take()) {
    if (is_stopped_) return;
    Call(env, on_record, record);
  }
  if (is_stopped_) return;
  std::lock_guard lock(mutex_);
  is_notified_ = false;
  Notify();
}

RingBuffer::~RingBuffer() {
  if (!state_.reader) return;
  napi_remove_env_cleanup_hook(Env(), StopWithEnvironment, state_.reader.get());
  state_.reader->Stop();
}

Napi::Value RingBuffer::Close(const Napi::CallbackInfo& info) {
  if (!is_open_) return info.Env().Undefined();
  is_open_ = false;
  napi_remove_env_cleanup_hook(info.Env(), StopWithEnvironment, state_.reader.get());
  state_.reader->Stop();
  state_.reader.reset();
  Unref();
  return info.Env().Undefined();
}

Napi::Function RingBuffer::Define(Napi::Env env) {
  return DefineClass(env, kName, {InstanceMethod<&RingBuffer::Close>("close")});
}

// The hook is added after the threadsafe function, whose own hook therefore runs after ours.
static Napi::Value StartReader(const Napi::CallbackInfo& info, std::shared_ptr<RingReader> reader,
                               Napi::Function on_record) {
  auto* held = new std::shared_ptr<RingReader>(reader);
  auto drop = [](napi_env, void*, void* context) {
    delete static_cast<std::shared_ptr<RingReader>*>(context);
  };
  Napi::String name = Napi::String::New(info.Env(), "fairlead:ringBuffer");
  napi_threadsafe_function notify = nullptr;
  if (napi_create_threadsafe_function(info.Env(), on_record, nullptr, name, 0, 1, nullptr, drop,
                                      held, OnNotify, &notify) != napi_ok) {
    delete held;
    return ThrowErrno(info.Env(), ENOMEM, "napi_create_threadsafe_function");
  }
  napi_add_env_cleanup_hook(info.Env(), StopWithEnvironment, reader.get());
  Napi::Value handle = RingBuffer::Create(info.Env(), {.reader = reader});
  RingBuffer::TryUnwrap(info.Env(), handle)->Ref();
  reader->Start(notify);
  return handle;
}

static Napi::Value OpenRingBuffer(const Napi::CallbackInfo& info) {
  Args args(info, "openRingBuffer");
  BpfMap* map = BpfMap::Argument(args, args.At(0), "map");
  Napi::Function on_record = args.Callback(args.At(1), "onRecord");
  if (map == nullptr) return {};
  if (map->state().info.type != BPF_MAP_TYPE_RINGBUF) args.Refuse("map must be a ring buffer");
  if (!args.ok()) return {};
  auto reader = std::make_shared<RingReader>();
  if (!reader->Open(map->state().fd.get())) {
    return ThrowErrno(info.Env(), errno, "ring_buffer__new", map->state().info.name);
  }
  return StartReader(info, std::move(reader), on_record);
}

void RegisterRing(Napi::Env env, Addon& addon, Napi::Object exports) {
  addon.ring = Napi::Persistent(RingBuffer::Define(env));
  exports.Set("openRingBuffer", Napi::Function::New<OpenRingBuffer>(env, "openRingBuffer"));
}

}  // namespace fairlead
