// SPDX-License-Identifier: Apache-2.0
// Facts about a network namespace: its cookie, and its addresses.
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <vector>

#include "addon.h"
#include "system/in_netns.h"

namespace fairlead {
namespace {

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

void Fail(Failure* failure, const char* op) {
  failure->error = errno;
  failure->op = op;
}

// 0: the kernel does not tell, or `failure` is set.
uint64_t CookieHere(Failure* failure) {
  Fd socket_fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket_fd.is_valid()) {
    Fail(failure, "socket");
    return 0;
  }
  uint64_t cookie = 0;
  socklen_t size = sizeof(cookie);
  if (getsockopt(socket_fd.get(), SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &size) != 0 &&
      errno != ENOPROTOOPT) {
    Fail(failure, "getsockopt");
  }
  return cookie;
}

Napi::Value NetnsCookie(const Napi::CallbackInfo& info) {
  Args args(info, "netnsCookie");
  Fd netns = ReadNetns(args, 0);
  if (!args.ok()) return {};
  Failure failure;
  uint64_t cookie = 0;
  if (!RunInNetns(netns, [&] { cookie = CookieHere(&failure); }, &failure) || failure.error != 0) {
    return Throw(info.Env(), failure);
  }
  if (cookie == 0) return info.Env().Undefined();
  return Napi::BigInt::New(info.Env(), cookie);
}

std::string AddressText(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = {};
  const void* bytes =
      address->sa_family == AF_INET
          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(address)->sin_addr)
          : &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  inet_ntop(address->sa_family, bytes, text, sizeof(text));
  return text;
}

bool IsAddress(const ifaddrs& one) {
  return one.ifa_addr != nullptr && (one.ifa_flags & IFF_LOOPBACK) == 0 &&
         (one.ifa_addr->sa_family == AF_INET || one.ifa_addr->sa_family == AF_INET6);
}

void AddressesHere(std::vector<std::string>* addresses, Failure* failure) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return Fail(failure, "getifaddrs");
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (IsAddress(*one)) addresses->push_back(AddressText(one->ifa_addr));
  }
  freeifaddrs(all);
}

Napi::Value NetnsAddresses(const Napi::CallbackInfo& info) {
  Args args(info, "netnsAddresses");
  Fd netns = ReadNetns(args, 0);
  if (!args.ok()) return {};
  Failure failure;
  std::vector<std::string> addresses;
  if (!RunInNetns(
          netns, [&] { AddressesHere(&addresses, &failure); }, &failure) ||
      failure.error != 0) {
    return Throw(info.Env(), failure);
  }
  Napi::Array texts = Napi::Array::New(info.Env(), addresses.size());
  for (uint32_t i = 0; i < addresses.size(); i++) {
    texts.Set(i, Napi::String::New(info.Env(), addresses[i]));
  }
  return texts;
}

}  // namespace

void RegisterNetns(Napi::Env env, Addon&, Napi::Object exports) {
  exports.Set("netnsCookie", Napi::Function::New<NetnsCookie>(env, "netnsCookie"));
  exports.Set("netnsAddresses", Napi::Function::New<NetnsAddresses>(env, "netnsAddresses"));
}

}  // namespace fairlead
