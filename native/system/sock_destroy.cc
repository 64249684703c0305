// SPDX-License-Identifier: Apache-2.0
// destroySockets: SOCK_DESTROY of sock_diag(7) for sockets of one network namespace. The kernel
// waits for the lock of each: on the thread pool, not on the loop.
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <string.h>
#include <sys/socket.h>

#include <vector>

#include "addon.h"
#include "system/in_netns.h"

namespace fairlead {
namespace {

using Request = inet_diag_req_v2;

struct Message {
  nlmsghdr header;
  Request request;
};

struct Acknowledgement {
  nlmsghdr header;
  nlmsgerr result;
  Message rejected;  // an error repeats what was sent
};

// 0 or the errno of this one. -1: the socket fails, errno says why.
int DestroyOne(const Fd& netlink, const Request& request, uint32_t sequence) {
  Message message = {};
  message.header.nlmsg_len = sizeof(message);
  message.header.nlmsg_type = SOCK_DESTROY;
  message.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
  message.header.nlmsg_seq = sequence;
  message.request = request;
  if (send(netlink.get(), &message, sizeof(message), 0) < 0) return -1;
  Acknowledgement answer = {};
  ssize_t size = recv(netlink.get(), &answer, sizeof(answer), 0);
  if (size < 0) return -1;
  if (size < static_cast<ssize_t>(sizeof(answer.header) + sizeof(answer.result.error)) ||
      answer.header.nlmsg_type != NLMSG_ERROR) {
    errno = EBADMSG;
    return -1;
  }
  return -answer.result.error;
}

class SocketsDestroy : public Napi::AsyncWorker {
 public:
  SocketsDestroy(Napi::Env env, Fd netns, Bytes requests)
      : Napi::AsyncWorker(env, "fairlead:destroySockets"),
        deferred_(Napi::Promise::Deferred::New(env)),
        netns_(std::move(netns)),
        requests_(requests.size() / sizeof(Request)) {
    if (!requests.empty()) memcpy(requests_.data(), requests.data(), requests.size());
  }

  Napi::Promise Promise() const { return deferred_.Promise(); }

  void Execute() override {
    RunInNetns(netns_, [this] { is_done_ = DestroyAll(); }, &failure_);
  }

  void OnOK() override {
    if (!is_done_) return deferred_.Reject(MakeError(Env(), failure_));
    deferred_.Resolve(ErrnoNames(Env(), errors_));
  }

 private:
  bool Fail(const char* op) {
    failure_.error = errno;
    failure_.op = op;
    return false;
  }

  bool DestroyAll() {
    Fd netlink(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
    if (!netlink.is_valid()) return Fail("socket");
    for (const Request& request : requests_) {
      int error = DestroyOne(netlink, request, errors_.size() + 1);
      if (error < 0) return Fail("SOCK_DESTROY");
      errors_.push_back(error);
    }
    return true;
  }

  Napi::Promise::Deferred deferred_;
  Fd netns_;
  std::vector<Request> requests_;
  std::vector<int> errors_;
  Failure failure_;
  bool is_done_ = false;
};

Napi::Value DestroySockets(const Napi::CallbackInfo& info) {
  Args args(info, "destroySockets");
  Fd netns = ReadNetns(args, 1);
  Bytes requests = args.Elements(args.At(0), "requests", sizeof(Request));
  if (!args.ok()) return {};
  auto* destroy = new SocketsDestroy(info.Env(), std::move(netns), requests);
  Napi::Promise promise = destroy->Promise();
  destroy->Queue();
  return promise;
}

}  // namespace

void RegisterSockDestroy(Napi::Env env, Addon&, Napi::Object exports) {
  exports.Set("destroySockets", Napi::Function::New<DestroySockets>(env, "destroySockets"));
}

}  // namespace fairlead
