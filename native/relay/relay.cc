// SPDX-License-Identifier: Apache-2.0
// See relay.h.
#include "relay/relay.h"

#include <errno.h>
#include <sys/resource.h>

#include <algorithm>

#include "binding/notify.h"

namespace fairlead {
namespace {

constexpr uint32_t kConnectTimeoutMs = 60'000;
// Files of the process that are none of a connection's: its own, listeners, pipes, UDP flows.
constexpr uint32_t kOtherFiles = 512;
constexpr uint32_t kMostPipes = 64;

uint32_t MostFiles() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  return static_cast<uint32_t>(std::min<uint64_t>(limit.rlim_cur, uint64_t{1} << 31));
}

// A connection costs two files.
uint32_t ConnectionsByFiles() {
  uint32_t files = MostFiles();
  return files > 2 * kOtherFiles ? (files - kOtherFiles) / 2 : files / 4;
}

// A sixteenth of all files at most: a pipe costs two.
uint32_t PipesByFiles() {
  return std::min(kMostPipes, std::max(1U, MostFiles() / 32));
}

void StopWithEnvironment(void* loop) {
  static_cast<RelayLoop*>(loop)->Stop();
}

// The hook is added after the threadsafe function, whose own hook therefore runs after ours.
Napi::Value StartLoop(Napi::Env env, std::shared_ptr<RelayLoop> loop, Napi::Function on_events) {
  napi_threadsafe_function notify = MakeNotify(env, "fairlead:relay", loop, on_events);
  if (notify == nullptr) return ThrowErrno(env, ECANCELED, "napi_create_threadsafe_function");
  Napi::Value handle = Relay::Create(env, {.loop = loop});
  int error = handle.IsEmpty() ? ECANCELED : loop->Start(notify);
  if (error != 0) {
    napi_release_threadsafe_function(notify, napi_tsfn_abort);
    return ThrowErrno(env, error, "pthread_create");
  }
  napi_add_env_cleanup_hook(env, StopWithEnvironment, loop.get());
  Relay::TryUnwrap(env, handle)->Ref();
  return handle;
}

Napi::Value OpenRelay(const Napi::CallbackInfo& info) {
  Args args(info, "openRelay");
  RelayOptions options = {};
  options.connect_timeout_ms =
      args.Uint32Or(args.Option(0, "connectTimeoutMs"), "connectTimeoutMs", kConnectTimeoutMs);
  options.most_connections =
      args.Uint32Or(args.Option(0, "mostConnections"), "mostConnections", ConnectionsByFiles());
  options.most_pipes = PipesByFiles();
  Napi::Function on_events = args.Callback(args.At(1), "onEvents");
  if (!args.ok()) return {};
  auto loop = std::make_shared<RelayLoop>(options);
  if (!loop->Open()) return ThrowErrno(info.Env(), errno, "epoll_create1");
  Napi::Value handle = StartLoop(info.Env(), std::move(loop), on_events);
  if (!handle.IsEmpty()) {
    handle.As<Napi::Object>().Set("mostConnections", options.most_connections);
  }
  return handle;
}

}  // namespace

// An open one is held until close(), so this runs open only after StopWithEnvironment.
Relay::~Relay() {
  if (state_.loop) state_.loop->Stop();
}

Napi::Value Relay::Listen(const Napi::CallbackInfo& info) {
  Args args(info, "listen", &is_open_);
  Bytes address = args.AnyBytes(args.At(0), "address");
  uint32_t port = args.Uint32(args.At(1), "port");
  if (address.size() != 4 && address.size() != 16) args.Refuse("address must be 4 or 16 bytes");
  if (port > 65535) args.Refuse("port must be below 65536");
  if (!args.ok()) return {};
  uint8_t family = address.size() == 4 ? 4 : 6;
  SocketAddress at = SocketAddress::Of(family, address.data(), static_cast<uint16_t>(port));
  uint16_t bound = 0;
  const char* call = nullptr;
  uint32_t id = state_.loop->listeners().Add(at, bound, call);
  if (id == 0) return ThrowErrno(info.Env(), errno, call);
  Napi::Object made = Napi::Object::New(info.Env());
  made.Set("id", id);
  made.Set("port", uint32_t{bound});
  return made;
}

Napi::Value Relay::Unlisten(const Napi::CallbackInfo& info) {
  Args args(info, "unlisten", &is_open_);
  uint32_t id = args.Uint32(args.At(0), "id");
  if (args.ok()) state_.loop->listeners().Remove(id);
  return info.Env().Undefined();
}

Napi::Value Relay::Answer(const Napi::CallbackInfo& info) {
  Args args(info, "answer", &is_open_);
  Bytes bytes = args.Elements(args.At(0), "answers", sizeof(fairlead::Answer));
  if (!args.ok()) return {};
  std::vector<fairlead::Answer> answers(bytes.size() / sizeof(fairlead::Answer));
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<uint8_t*>(answers.data()));
  state_.loop->Tell(answers.data(), answers.size());
  return info.Env().Undefined();
}

Napi::Value Relay::Close(const Napi::CallbackInfo& info) {
  if (!is_open_) return info.Env().Undefined();
  is_open_ = false;
  napi_remove_env_cleanup_hook(info.Env(), StopWithEnvironment, state_.loop.get());
  state_.loop->Stop();
  state_.loop.reset();
  Unref();
  return info.Env().Undefined();
}

Napi::Function Relay::Define(Napi::Env env) {
  return DefineClass(
      env, kName,
      {InstanceMethod<&Relay::Listen>("listen"), InstanceMethod<&Relay::Unlisten>("unlisten"),
       InstanceMethod<&Relay::Answer>("answer"), InstanceMethod<&Relay::Close>("close")});
}

void RegisterRelay(Napi::Env env, Addon& addon, Napi::Object exports) {
  addon.relay = Napi::Persistent(Relay::Define(env));
  exports.Set("openRelay", Napi::Function::New<OpenRelay>(env, "openRelay"));
}

}  // namespace fairlead
