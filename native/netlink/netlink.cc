// SPDX-License-Identifier: Apache-2.0
// See netlink.h. Messages are bytes here: src/sys/netlink takes them apart.
#include "netlink/netlink.h"

#include <errno.h>
#include <linux/netlink.h>
#include <sys/socket.h>

#include <vector>

#include "binding/notify.h"
#include "netlink/exchange.h"
#include "system/in_netns.h"

namespace fairlead {
namespace {

void StopWithEnvironment(void* watch) {
  static_cast<ReadyWatch*>(watch)->Stop();
}

// Without CAP_NET_ADMIN in the initial user namespace the size stays within the system's limit.
void SetReceiveBuffer(int fd, uint32_t size) {
  int bytes = static_cast<int>(size);
  if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)) == 0) return;
  setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
}

Fd OpenSocket(uint32_t protocol, uint32_t groups, uint32_t buffer_size) {
  Fd fd(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, static_cast<int>(protocol)));
  if (!fd.is_valid()) return {};
  if (buffer_size > 0) SetReceiveBuffer(fd.get(), buffer_size);
  sockaddr_nl address = {};
  address.nl_family = AF_NETLINK;
  address.nl_groups = groups;
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) return {};
  return fd;
}

// The datagram's size, or -1 with errno set. Its sender goes to `from`.
ssize_t ReceiveFrom(int fd, std::vector<uint8_t>& bytes, sockaddr_nl* from) {
  ssize_t size = recv(fd, nullptr, 0, MSG_PEEK | MSG_TRUNC);
  if (size < 0) return -1;
  bytes.resize(static_cast<size_t>(size));
  socklen_t length = sizeof(*from);
  return recvfrom(fd, bytes.data(), bytes.size(), 0, reinterpret_cast<sockaddr*>(from), &length);
}

}  // namespace

// An open socket with a callback is held until close(), so this runs open only after
// StopWithEnvironment.
NetlinkSocket::~NetlinkSocket() {
  if (state_.watch) state_.watch->Stop();
}

Napi::Value NetlinkSocket::Send(const Napi::CallbackInfo& info) {
  Args args(info, "netlink.send", &is_open_);
  Bytes message = args.AnyBytes(args.At(0), "message");
  if (!args.ok()) return {};
  sockaddr_nl kernel = {};
  kernel.nl_family = AF_NETLINK;
  if (sendto(state_.fd.get(), message.data(), message.size(), 0,
             reinterpret_cast<sockaddr*>(&kernel), sizeof(kernel)) < 0) {
    return ThrowErrno(info.Env(), errno, "sendto", "netlink");
  }
  return info.Env().Undefined();
}

// Any process may send to a netlink socket: only what the kernel sent (port 0) is returned.
Napi::Value NetlinkSocket::Receive(const Napi::CallbackInfo& info) {
  Args args(info, "netlink.receive", &is_open_);
  if (!args.ok()) return {};
  std::vector<uint8_t> bytes;
  for (;;) {
    sockaddr_nl from = {};
    ssize_t size = ReceiveFrom(state_.fd.get(), bytes, &from);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) return info.Env().Undefined();
    if (size < 0) return ThrowErrno(info.Env(), errno, "recvfrom", "netlink");
    if (from.nl_pid == 0) return CopyBytes(info.Env(), bytes.data(), static_cast<size_t>(size));
  }
}

Napi::Value NetlinkSocket::Exchange(const Napi::CallbackInfo& info) {
  Args args(info, "netlink.exchange", &is_open_);
  Bytes message;
  if (!args.At(0).IsUndefined()) message = args.AnyBytes(args.At(0), "message");
  if (!args.ok()) return {};
  Fd socket = Fd::Duplicate(state_.fd.get());
  if (!socket.is_valid()) return ThrowErrno(info.Env(), errno, "fcntl", "netlink");
  return QueueExchange(info.Env(), std::move(socket), {message.begin(), message.end()});
}

Napi::Value NetlinkSocket::Close(const Napi::CallbackInfo& info) {
  if (!is_open_) return info.Env().Undefined();
  is_open_ = false;
  if (state_.watch) {
    napi_remove_env_cleanup_hook(info.Env(), StopWithEnvironment, state_.watch.get());
    state_.watch->Stop();
    state_.watch.reset();
    Unref();
  }
  state_.fd.Reset();
  return info.Env().Undefined();
}

Napi::Function NetlinkSocket::Define(Napi::Env env) {
  return DefineClass(env, kName,
                     {InstanceMethod<&NetlinkSocket::Send>("send"),
                      InstanceMethod<&NetlinkSocket::Receive>("receive"),
                      InstanceMethod<&NetlinkSocket::Exchange>("exchange"),
                      InstanceMethod<&NetlinkSocket::Close>("close")});
}

// The hook is added after the threadsafe function, whose own hook therefore runs after ours.
static Napi::Value OpenWatched(Napi::Env env, Fd fd, Napi::Function on_readable) {
  auto watch = std::make_shared<ReadyWatch>();
  if (!watch->Open(fd.get())) return ThrowErrno(env, errno, "eventfd", "netlink");
  napi_threadsafe_function notify = MakeNotify(env, "fairlead:netlink", watch, on_readable);
  if (notify == nullptr) return ThrowErrno(env, ECANCELED, "napi_create_threadsafe_function");
  Napi::Value handle = NetlinkSocket::Create(env, {.fd = std::move(fd), .watch = watch});
  int error = handle.IsEmpty() ? ECANCELED : watch->Start(notify);
  if (error != 0) {
    napi_release_threadsafe_function(notify, napi_tsfn_abort);
    return ThrowErrno(env, error, "pthread_create");
  }
  napi_add_env_cleanup_hook(env, StopWithEnvironment, watch.get());
  NetlinkSocket::TryUnwrap(env, handle)->Ref();
  return handle;
}

static Napi::Value OpenNetlink(const Napi::CallbackInfo& info) {
  Args args(info, "openNetlink");
  uint32_t protocol = args.Uint32(args.Option(0, "protocol"), "protocol");
  uint32_t groups = args.Uint32Or(args.Option(0, "groups"), "groups", 0);
  uint32_t size = args.Uint32Or(args.Option(0, "receiveBufferSize"), "receiveBufferSize", 0);
  Fd netns = ReadNetns(args, 0);
  bool is_watched = !args.At(1).IsUndefined();
  Napi::Function on_readable;
  if (is_watched) on_readable = args.Callback(args.At(1), "onReadable");
  if (!args.ok()) return {};
  Fd fd;
  int error = 0;
  auto open = [&] {
    fd = OpenSocket(protocol, groups, size);
    error = errno;
  };
  Failure failure;
  if (!RunInNetns(netns, open, &failure)) return Throw(info.Env(), failure);
  if (!fd.is_valid()) return ThrowErrno(info.Env(), error, "socket", "netlink");
  if (!is_watched) return NetlinkSocket::Create(info.Env(), {.fd = std::move(fd), .watch = {}});
  return OpenWatched(info.Env(), std::move(fd), on_readable);
}

void RegisterNetlink(Napi::Env env, Addon& addon, Napi::Object exports) {
  addon.netlink = Napi::Persistent(NetlinkSocket::Define(env));
  exports.Set("openNetlink", Napi::Function::New<OpenNetlink>(env, "openNetlink"));
}

}  // namespace fairlead
