// SPDX-License-Identifier: Apache-2.0
// The Relay handle: a running loop, held open until close().
#ifndef FAIRLEAD_RELAY_H_
#define FAIRLEAD_RELAY_H_

#include <memory>

#include "binding/handle.h"
#include "relay/relay_loop.h"

namespace fairlead {

struct RelayState {
  std::shared_ptr<RelayLoop> loop;
};

class Relay : public Handle<Relay, RelayState> {
 public:
  using Handle::Handle;
  ~Relay() override;
  static constexpr napi_type_tag kTag = {0x51c0d7a96be24f18, 0x9a03e4f72c6d81b5};
  static constexpr const char* kName = "Relay";
  static Napi::FunctionReference& Slot(Addon& addon) { return addon.relay; }
  static Napi::Function Define(Napi::Env env);

 private:
  Napi::Value Listen(const Napi::CallbackInfo& info);
  Napi::Value Unlisten(const Napi::CallbackInfo& info);
  Napi::Value Answer(const Napi::CallbackInfo& info);
  Napi::Value Close(const Napi::CallbackInfo& info);
};

}  // namespace fairlead

#endif  // FAIRLEAD_RELAY_H_
