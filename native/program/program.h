// SPDX-License-Identifier: Apache-2.0
// The BpfProgram handle: a loaded program's file descriptor and facts.
#ifndef FAIRLEAD_PROGRAM_H_
#define FAIRLEAD_PROGRAM_H_

#include <linux/bpf.h>

#include <string>

#include "binding/handle.h"
#include "program/attach.h"
#include "system/fd.h"

namespace fairlead {

constexpr uint32_t kUnknownAttachType = UINT32_MAX;

struct ProgramState {
  Fd fd;
  bpf_prog_info info = {};
  uint32_t attach_type = kUnknownAttachType;  // of its section; unknown for a pinned program
  std::string name;  // as in the object: the kernel keeps 15 characters only
};

// Takes the descriptor; an empty name means the kernel's. False with errno set on failure.
bool ReadProgramState(Fd fd, const std::string& name, ProgramState* state);

struct TestRunInput {
  Bytes data;
  Bytes context;
  uint32_t out_size = 0;
  uint32_t repeat = 0;
  uint32_t flags = 0;
  Fd netns;  // invalid: the caller's
};

class BpfProgram : public Handle<BpfProgram, ProgramState> {
 public:
  using Handle::Handle;
  static constexpr napi_type_tag kTag = {0x51e0a4d3f8924b7c, 0x8d3e6f20c17a4b95};
  static constexpr const char* kName = "BpfProgram";
  static Napi::FunctionReference& Slot(Addon& addon) { return addon.program; }
  static Napi::Function Define(Napi::Env env);

 private:
  Napi::Value Name(const Napi::CallbackInfo& info);
  Napi::Value Info(const Napi::CallbackInfo& info);
  Napi::Value TestRun(const Napi::CallbackInfo& info);
  Napi::Value AttachCgroup(const Napi::CallbackInfo& info);
  Napi::Value AttachTc(const Napi::CallbackInfo& info);
  Napi::Value AttachXdp(const Napi::CallbackInfo& info);
  Napi::Value AttachTracepoint(const Napi::CallbackInfo& info);
  Napi::Value Pin(const Napi::CallbackInfo& info);
  Napi::Value Close(const Napi::CallbackInfo& info);

  static TcxOrder ReadTcxOrder(Args& args);
  static TestRunInput ReadTestRun(Args& args);
};

}  // namespace fairlead

#endif  // FAIRLEAD_PROGRAM_H_
