// SPDX-License-Identifier: Apache-2.0
// See exchange.h.
#include "netlink/exchange.h"

#include <errno.h>
#include <linux/netlink.h>
#include <sys/socket.h>

#include <utility>

#include "binding/args.h"
#include "binding/error.h"

namespace fairlead {
namespace {

// The kernel fills datagrams of a dump up to the size of the buffer, and no further than this.
constexpr size_t kMostBytes = 32768;

// Has a descriptor of its own: close() does not take it away.
class Exchange : public Napi::AsyncWorker {
 public:
  Exchange(Napi::Env env, Fd socket, std::vector<uint8_t> message)
      : Napi::AsyncWorker(env, "fairlead:netlink.exchange"),
        deferred_(Napi::Promise::Deferred::New(env)),
        socket_(std::move(socket)),
        bytes_(std::move(message)) {}

  Napi::Promise Promise() const { return deferred_.Promise(); }

  void Execute() override {
    if (!bytes_.empty() && !Send()) return;
    Receive();
  }

  void OnOK() override {
    if (failure_.error != 0) return deferred_.Reject(MakeError(Env(), failure_));
    if (is_empty_) return deferred_.Resolve(Env().Undefined());
    Napi::Value copy = CopyBytes(Env(), bytes_.data(), bytes_.size());
    if (!copy.IsEmpty()) deferred_.Resolve(copy);
  }

 private:
  bool Send() {
    sockaddr_nl kernel = {};
    kernel.nl_family = AF_NETLINK;
    ssize_t sent = sendto(socket_.get(), bytes_.data(), bytes_.size(), 0,
                          reinterpret_cast<sockaddr*>(&kernel), sizeof(kernel));
    if (sent < 0) Fail("sendto", errno);
    return sent >= 0;
  }

  // Any process may send to a netlink socket: only what the kernel sent (port 0) counts.
  void Receive() {
    bytes_.resize(kMostBytes);
    for (;;) {
      sockaddr_nl from = {};
      socklen_t length = sizeof(from);
      ssize_t size = recvfrom(socket_.get(), bytes_.data(), bytes_.size(), MSG_TRUNC,
                              reinterpret_cast<sockaddr*>(&from), &length);
      if (size < 0 && errno == EINTR) continue;
      if (size >= 0 && from.nl_pid != 0) continue;
      is_empty_ = size < 0 && errno == EAGAIN;
      if (size < 0 && !is_empty_) return Fail("recvfrom", errno);
      if (size > static_cast<ssize_t>(kMostBytes)) return Fail("recvfrom", EMSGSIZE);
      bytes_.resize(size < 0 ? 0 : static_cast<size_t>(size));
      return;
    }
  }

  void Fail(const char* op, int error) {
    failure_ = {.error = error, .op = op, .detail = "netlink", .code = "", .log = ""};
  }

  Napi::Promise::Deferred deferred_;
  Fd socket_;
  std::vector<uint8_t> bytes_;
  Failure failure_;
  bool is_empty_ = false;
};

}  // namespace

Napi::Promise QueueExchange(Napi::Env env, Fd socket, std::vector<uint8_t> message) {
  auto* exchange = new Exchange(env, std::move(socket), std::move(message));
  Napi::Promise promise = exchange->Promise();
  exchange->Queue();
  return promise;
}

}  // namespace fairlead
