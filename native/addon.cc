// SPDX-License-Identifier: Apache-2.0
// Entry point: builds the exports of one environment.
#include "addon.h"

#include "binding/error.h"
#include "map/grace.h"

namespace fairlead {
namespace {

Napi::Object Init(Napi::Env env, Napi::Object exports) {
  CaptureLibbpfMessages();
  auto* addon = new Addon();
  env.SetInstanceData(addon);
  for (auto* add : {RegisterObject, RegisterMap, RegisterProgram, RegisterLink, RegisterRing,
                    RegisterTcQuery, RegisterNetlink, RegisterInspect, RegisterSystem,
                    RegisterGrace, RegisterIterate, RegisterSockDestroy, RegisterSockConnect,
                    RegisterNetns, RegisterXtTargets, RegisterDescriptors, RegisterRelay}) {
    add(env, *addon, exports);
  }
  return exports;
}

}  // namespace
}  // namespace fairlead

static Napi::Object Init(Napi::Env env, Napi::Object exports) {
  return fairlead::Init(env, exports);
}

NODE_API_MODULE(fairlead, Init)
