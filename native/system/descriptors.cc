// SPDX-License-Identifier: Apache-2.0
// Open files from one process to another: descriptors that go with the bytes of a UNIX stream
// socket (SCM_RIGHTS, unix(7)). Node reads such sockets without them, which closes them.
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include <vector>

#include "addon.h"
#include "binding/args.h"
#include "binding/error.h"
#include "system/fd.h"

namespace fairlead {
namespace {

// What the kernel takes in one message (SCM_MAX_FD).
constexpr size_t kMostDescriptors = 253;
constexpr size_t kMostBytes = 64 * 1024;

struct Control {
  alignas(cmsghdr) char bytes[CMSG_SPACE(kMostDescriptors * sizeof(int))] = {};
};

// Empty with an exception pending if they are refused, or if a getter throws.
std::vector<int> ReadDescriptors(Args& args, Napi::Value value) {
  uint32_t count = 0;
  if (!args.ok()) return {};
  if (!value.IsArray() || napi_get_array_length(args.env(), value, &count) != napi_ok ||
      count == 0 || count > kMostDescriptors) {
    args.Refuse("descriptors must be an array of 1 to 253 numbers");
    return {};
  }
  std::vector<int> descriptors;
  for (uint32_t i = 0; i < count; i++) {
    napi_value element = nullptr;
    if (napi_get_element(args.env(), value, i, &element) != napi_ok) return {};
    uint32_t fd = args.Uint32(Napi::Value(args.env(), element), "descriptor");
    if (args.ok() && fd > INT32_MAX) args.Refuse("descriptor must be an open file descriptor");
    if (!args.ok()) return {};
    descriptors.push_back(static_cast<int>(fd));
  }
  return descriptors;
}

Napi::Value SendDescriptors(const Napi::CallbackInfo& info) {
  Args args(info, "sendDescriptors");
  uint32_t socket = args.Uint32(args.At(0), "socket");
  Bytes bytes = args.AnyBytes(args.At(1), "bytes");
  // Without a byte beside them descriptors are not received.
  if (args.ok() && (bytes.empty() || bytes.size() > kMostBytes)) {
    args.Refuse("bytes must be 1 to 65536");
  }
  std::vector<int> descriptors = ReadDescriptors(args, args.At(2));
  if (descriptors.empty()) return {};
  Control control;
  iovec part = {const_cast<uint8_t*>(bytes.data()), bytes.size()};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = CMSG_SPACE(descriptors.size() * sizeof(int));
  cmsghdr* rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
  memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size() * sizeof(int));
  ssize_t sent = 0;
  do {
    sent = sendmsg(static_cast<int>(socket), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0) return ThrowErrno(info.Env(), errno, "sendmsg");
  // The rest would have to follow without them: whoever reads so slowly is not worth it.
  if (static_cast<size_t>(sent) < bytes.size()) return ThrowErrno(info.Env(), EAGAIN, "sendmsg");
  return info.Env().Undefined();
}

// Takes them all, so that none stays open unnoticed.
std::vector<Fd> TakeDescriptors(msghdr* message) {
  std::vector<Fd> taken;
  for (cmsghdr* part = CMSG_FIRSTHDR(message); part != nullptr; part = CMSG_NXTHDR(message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; i++) {
      int fd = -1;
      memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      taken.emplace_back(fd);
    }
  }
  return taken;
}

Napi::Value ReceiveDescriptors(const Napi::CallbackInfo& info) {
  Args args(info, "receiveDescriptors");
  uint32_t socket = args.Uint32(args.At(0), "socket");
  if (!args.ok()) return {};
  std::vector<uint8_t> bytes(kMostBytes);
  Control control;
  iovec part = {bytes.data(), bytes.size()};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof(control.bytes);
  ssize_t size = 0;
  do {
    size = recvmsg(static_cast<int>(socket), &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  } while (size < 0 && errno == EINTR);
  if (size < 0 && errno == EAGAIN) return info.Env().Undefined();
  if (size < 0) return ThrowErrno(info.Env(), errno, "recvmsg");
  std::vector<Fd> taken = TakeDescriptors(&message);
  // The process may have no more open files: those that the kernel could not add are lost.
  if ((message.msg_flags & MSG_CTRUNC) != 0) return ThrowErrno(info.Env(), EMFILE, "recvmsg");
  Napi::Value copy = CopyBytes(info.Env(), bytes.data(), static_cast<size_t>(size));
  if (copy.IsEmpty()) return {};
  Napi::Object received = Napi::Object::New(info.Env());
  Napi::Array descriptors = Napi::Array::New(info.Env(), taken.size());
  for (uint32_t i = 0; i < taken.size(); i++) {
    descriptors.Set(i, Napi::Number::New(info.Env(), taken[i].Release()));
  }
  received.Set("bytes", copy);
  received.Set("descriptors", descriptors);
  return received;
}

}  // namespace

void RegisterDescriptors(Napi::Env env, Addon&, Napi::Object exports) {
  exports.Set("sendDescriptors", Napi::Function::New<SendDescriptors>(env, "sendDescriptors"));
  exports.Set("receiveDescriptors",
              Napi::Function::New<ReceiveDescriptors>(env, "receiveDescriptors"));
}

}  // namespace fairlead
