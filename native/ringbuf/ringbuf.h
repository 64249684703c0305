// SPDX-License-Identifier: Apache-2.0
// The RingBuffer handle: a running reader, held open until close().
#ifndef FAIRLEAD_RINGBUF_H_
#define FAIRLEAD_RINGBUF_H_

#include <memory>

#include "binding/handle.h"
#include "ringbuf/ring_reader.h"

namespace fairlead {

struct RingState {
  std::shared_ptr<RingReader> reader;
};

class RingBuffer : public Handle<RingBuffer, RingState> {
 public:
  using Handle::Handle;
  ~RingBuffer() override;
  static constexpr napi_type_tag kTag = {0x2ab8f0417e6d4c93, 0xc64d9e18b3f05a27};
  static constexpr const char* kName = "RingBuffer";
  static Napi::FunctionReference& Slot(Addon& addon) { return addon.ring; }
  static Napi::Function Define(Napi::Env env);

 private:
  Napi::Value Close(const Napi::CallbackInfo& info);
};

}  // namespace fairlead

#endif  // FAIRLEAD_RINGBUF_H_
