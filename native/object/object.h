// SPDX-License-Identifier: Apache-2.0
// The BpfObject handle: an opened object file, configured before load, a source of handles after
// it.
#ifndef FAIRLEAD_OBJECT_H_
#define FAIRLEAD_OBJECT_H_

#include <bpf/libbpf.h>

#include <memory>
#include <string>

#include "binding/handle.h"
#include "object/layout.h"
#include "system/fd.h"

namespace fairlead {

// libbpf reads `kernel_types` by its path when the object is loaded.
struct ObjectCloser {
  Fd kernel_types;
  void operator()(bpf_object* object) { bpf_object__close(object); }
};
using ObjectPointer = std::unique_ptr<bpf_object, ObjectCloser>;

// Null with the error thrown if the bytes are no BPF object. The bytes are not kept. With
// `kernel_types`, BTF, relocations are found in it and not in that of the kernel.
ObjectPointer OpenMemory(Napi::Env env, Bytes bytes, const std::string& name,
                         Bytes kernel_types = {});

struct ObjectState {
  // Shared with a load that runs on another thread, which may outlast the handle.
  std::shared_ptr<bpf_object> object;
  // Of the maps that it reuses, until it is loaded.
  KernelTypes kernel_types;
  bool is_loaded = false;
  bool is_loading = false;
};

class BpfObject : public Handle<BpfObject, ObjectState> {
 public:
  using Handle::Handle;
  static constexpr napi_type_tag kTag = {0x3c7be1905d264fa8, 0xb05f7a1e93c84d62};
  static constexpr const char* kName = "BpfObject";
  static Napi::FunctionReference& Slot(Addon& addon) { return addon.object; }
  static Napi::Function Define(Napi::Env env);
  void EndLoading(bool is_loaded);

 private:
  Napi::Value SetRodata(const Napi::CallbackInfo& info);
  Napi::Value SetMaxEntries(const Napi::CallbackInfo& info);
  Napi::Value ReusePin(const Napi::CallbackInfo& info);
  Napi::Value ReuseMap(const Napi::CallbackInfo& info);
  Napi::Value SetAutoload(const Napi::CallbackInfo& info);
  Napi::Value SetExpectedAttachType(const Napi::CallbackInfo& info);
  Napi::Value SetProgramFlags(const Napi::CallbackInfo& info);
  Napi::Value Load(const Napi::CallbackInfo& info);
  Napi::Value LoadAsync(const Napi::CallbackInfo& info);
  Napi::Value Maps(const Napi::CallbackInfo& info);
  Napi::Value Programs(const Napi::CallbackInfo& info);
  Napi::Value MapLayout(const Napi::CallbackInfo& info);
  Napi::Value Map(const Napi::CallbackInfo& info);
  Napi::Value Program(const Napi::CallbackInfo& info);
  Napi::Value Close(const Napi::CallbackInfo& info);

  // Each returns null with the error thrown.
  bpf_map* FindMap(Args& args, const std::string& name);
  bpf_program* FindProgram(Args& args, const std::string& name);
  bool CheckIdle(Args& args);
  bool CheckLoaded(Args& args, bool is_wanted);
  Napi::Value Reuse(Args& args, bpf_map* map, int fd, const std::string& from);
};

}  // namespace fairlead

#endif  // FAIRLEAD_OBJECT_H_
