// SPDX-License-Identifier: Apache-2.0
// The NetlinkSocket handle: datagrams to and from the kernel, and a watch for those that arrive.
#ifndef FAIRLEAD_NETLINK_H_
#define FAIRLEAD_NETLINK_H_

#include <memory>

#include "binding/handle.h"
#include "netlink/ready_watch.h"
#include "system/fd.h"

namespace fairlead {

struct NetlinkState {
  Fd fd;
  std::shared_ptr<ReadyWatch> watch;  // none without a callback
};

class NetlinkSocket : public Handle<NetlinkSocket, NetlinkState> {
 public:
  using Handle::Handle;
  ~NetlinkSocket() override;
  static constexpr napi_type_tag kTag = {0x6d13c5a2f04e4b87, 0x9f2be7430a5c81d6};
  static constexpr const char* kName = "NetlinkSocket";
  static Napi::FunctionReference& Slot(Addon& addon) { return addon.netlink; }
  static Napi::Function Define(Napi::Env env);

 private:
  Napi::Value Send(const Napi::CallbackInfo& info);
  Napi::Value Receive(const Napi::CallbackInfo& info);
  Napi::Value Exchange(const Napi::CallbackInfo& info);
  Napi::Value Close(const Napi::CallbackInfo& info);
};

}  // namespace fairlead

#endif  // FAIRLEAD_NETLINK_H_
