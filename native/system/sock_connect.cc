// SPDX-License-Identifier: Apache-2.0
// connectSockets: connect() for sockets of other processes, each by a duplicate of one of its
// descriptors (pidfd_getfd(2), Linux 5.6). On the thread pool: the kernel waits for the lock of
// each.
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "addon.h"
#include "binding/args.h"
#include "binding/error.h"
#include "system/fd.h"

namespace fairlead {
namespace {

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

struct Request {
  uint64_t cookie;
  int32_t process;
  int32_t descriptor;
  sockaddr_in6 to;  // or a sockaddr_in, as its family says
  uint32_t pad;
};
static_assert(sizeof(Request) == 48, "native/index.d.ts describes it");

constexpr char kGone[] = "ENOENT";

std::string FailureOf(const char* call) {
  return std::string(call) + ": " + ErrnoName(errno);
}

// The descriptor may be another file's by now.
bool IsSocket(const Fd& fd, uint64_t cookie) {
  uint64_t found = 0;
  socklen_t size = sizeof(found);
  return getsockopt(fd.get(), SOL_SOCKET, SO_COOKIE, &found, &size) == 0 && found == cookie;
}

// Its program may have connected it to something else meanwhile, or have undone it.
bool IsConnectedTo(const Fd& fd, const sockaddr_in6& to) {
  sockaddr_in6 peer = {};
  socklen_t size = sizeof(peer);
  if (getpeername(fd.get(), reinterpret_cast<sockaddr*>(&peer), &size) != 0) return false;
  // Family and port are at the same place in both.
  if (peer.sin6_family != to.sin6_family || peer.sin6_port != to.sin6_port) return false;
  if (to.sin6_family == AF_INET6) return IN6_ARE_ADDR_EQUAL(&peer.sin6_addr, &to.sin6_addr);
  return reinterpret_cast<const sockaddr_in&>(peer).sin_addr.s_addr ==
         reinterpret_cast<const sockaddr_in&>(to).sin_addr.s_addr;
}

// Empty: it is connected. ENOENT: the descriptor, or the process, is gone. Else the call and its
// errno: programs at the hook of connect() have run if that one failed.
std::string ConnectOne(const Request& request) {
  Fd process(static_cast<int>(syscall(SYS_pidfd_open, request.process, 0)));
  if (!process.is_valid()) return errno == ESRCH ? kGone : FailureOf("pidfd_open");
  Fd fd(static_cast<int>(syscall(SYS_pidfd_getfd, process.get(), request.descriptor, 0)));
  if (!fd.is_valid()) return errno == EBADF || errno == ESRCH ? kGone : FailureOf("pidfd_getfd");
  if (!IsSocket(fd, request.cookie) || !IsConnectedTo(fd, request.to)) return kGone;
  socklen_t size = request.to.sin6_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&request.to), size) == 0) return {};
  return FailureOf("connect");
}

class SocketsConnect : public Napi::AsyncWorker {
 public:
  SocketsConnect(Napi::Env env, Bytes requests)
      : Napi::AsyncWorker(env, "fairlead:connectSockets"),
        deferred_(Napi::Promise::Deferred::New(env)),
        requests_(requests.size() / sizeof(Request)) {
    if (!requests.empty()) memcpy(requests_.data(), requests.data(), requests.size());
  }

  Napi::Promise Promise() const { return deferred_.Promise(); }

  void Execute() override {
    for (const Request& request : requests_) failures_.push_back(ConnectOne(request));
  }

  void OnOK() override {
    Napi::Array failures = Napi::Array::New(Env(), failures_.size());
    for (uint32_t i = 0; i < failures_.size(); i++) {
      const std::string& failure = failures_[i];
      failures.Set(i, failure.empty() ? Env().Undefined() : Napi::String::New(Env(), failure));
    }
    deferred_.Resolve(failures);
  }

 private:
  Napi::Promise::Deferred deferred_;
  std::vector<Request> requests_;
  std::vector<std::string> failures_;
};

Napi::Value ConnectSockets(const Napi::CallbackInfo& info) {
  Args args(info, "connectSockets");
  Bytes requests = args.Elements(args.At(0), "requests", sizeof(Request));
  if (!args.ok()) return {};
  auto* connect = new SocketsConnect(info.Env(), requests);
  Napi::Promise promise = connect->Promise();
  connect->Queue();
  return promise;
}

}  // namespace

void RegisterSockConnect(Napi::Env env, Addon&, Napi::Object exports) {
  exports.Set("connectSockets", Napi::Function::New<ConnectSockets>(env, "connectSockets"));
}

}  // namespace fairlead
