// SPDX-License-Identifier: Apache-2.0
// The BpfLink handle: one attachment, identified by its kernel link or, for clsact, by its target.
#ifndef FAIRLEAD_LINK_H_
#define FAIRLEAD_LINK_H_

#include "binding/handle.h"
#include "program/attach.h"
#include "system/fd.h"

namespace fairlead {

enum class LinkKind { kCgroup, kTcx, kClsact, kXdp, kTracepoint };

struct LinkState {
  LinkKind kind = LinkKind::kCgroup;
  Fd fd;                   // not for clsact
  uint32_t id = 0;         // not for clsact
  uint64_t cgroup_id = 0;  // cgroup only
  uint32_t ifindex = 0;    // of devices only; 0 also if the device is gone
  TcTarget target;         // clsact only, in the network namespace it was made in
};

// The handle of a kernel link; throws if it is of a kind that this addon does not create.
Napi::Value MakeLink(Napi::Env env, Fd fd, const std::string& target);

class BpfLink : public Handle<BpfLink, LinkState> {
 public:
  using Handle::Handle;
  static constexpr napi_type_tag kTag = {0xe7420b9dc3564a1f, 0xa98c51f7064e3db2};
  static constexpr const char* kName = "BpfLink";
  static Napi::FunctionReference& Slot(Addon& addon) { return addon.link; }
  static Napi::Function Define(Napi::Env env);

 private:
  Napi::Value Kind(const Napi::CallbackInfo& info);
  Napi::Value Id(const Napi::CallbackInfo& info);
  Napi::Value Ifindex(const Napi::CallbackInfo& info);
  Napi::Value ProgramId(const Napi::CallbackInfo& info);
  Napi::Value CgroupId(const Napi::CallbackInfo& info);
  Napi::Value Update(const Napi::CallbackInfo& info);
  Napi::Value Pin(const Napi::CallbackInfo& info);
  Napi::Value Detach(const Napi::CallbackInfo& info);
  Napi::Value Close(const Napi::CallbackInfo& info);
};

}  // namespace fairlead

#endif  // FAIRLEAD_LINK_H_
