// SPDX-License-Identifier: Apache-2.0
// See ringbuf.h. The thread never enters JavaScript and never waits for it, so that stopping it
// (from close(), from the callback itself, or with the environment) is short.
#include "ringbuf/ringbuf.h"

#include <errno.h>

#include "binding/notify.h"
#include "map/map.h"

namespace fairlead {
namespace {

void StopWithEnvironment(void* reader) {
  static_cast<RingReader*>(reader)->Stop();
}

}  // namespace

// An open ring is held until close(), so this runs open only after StopWithEnvironment.
RingBuffer::~RingBuffer() {
  if (state_.reader) state_.reader->Stop();
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
static Napi::Value StartReader(Napi::Env env, std::shared_ptr<RingReader> reader,
                               Napi::Function on_record) {
  napi_threadsafe_function notify = MakeNotify(env, "fairlead:ringBuffer", reader, on_record);
  if (notify == nullptr) return ThrowErrno(env, ECANCELED, "napi_create_threadsafe_function");
  Napi::Value handle = RingBuffer::Create(env, {.reader = reader});
  int error = handle.IsEmpty() ? ECANCELED : reader->Start(notify);
  if (error != 0) {
    napi_release_threadsafe_function(notify, napi_tsfn_abort);
    return ThrowErrno(env, error, "pthread_create");
  }
  napi_add_env_cleanup_hook(env, StopWithEnvironment, reader.get());
  RingBuffer::TryUnwrap(env, handle)->Ref();
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
  return StartReader(info.Env(), std::move(reader), on_record);
}

void RegisterRing(Napi::Env env, Addon& addon, Napi::Object exports) {
  addon.ring = Napi::Persistent(RingBuffer::Define(env));
  exports.Set("openRingBuffer", Napi::Function::New<OpenRingBuffer>(env, "openRingBuffer"));
}

}  // namespace fairlead
