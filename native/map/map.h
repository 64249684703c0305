// SPDX-License-Identifier: Apache-2.0
// The BpfMap handle: a map's file descriptor, its real sizes, and its shared memory once asked for.
#ifndef FAIRLEAD_MAP_H_
#define FAIRLEAD_MAP_H_

#include <linux/bpf.h>

#include <memory>
#include <vector>

#include "binding/handle.h"
#include "system/fd.h"

namespace fairlead {

// Shared memory of a part of an array; the map's handle and its ArrayBuffer both hold it, so that
// the pages go away when the first of "unmapped", "map closed" and "both collected" happens.
class Mapping {
 public:
  Mapping(void* address, size_t size) : address_(address), size_(size) {}
  Mapping(const Mapping&) = delete;
  ~Mapping() { Unmap(); }
  void Unmap();

 private:
  void* address_;
  size_t size_;
};

// One part that was asked for, and the ArrayBuffer that was given for it.
struct SharedPart {
  size_t offset;
  size_t length;
  std::shared_ptr<Mapping> mapping;
  Napi::Reference<Napi::ArrayBuffer> buffer;

  bool IsTransferred() const;
  void Close();
};

struct MapState {
  Fd fd;
  bpf_map_info info = {};
  size_t value_bytes = 0;  // as the system calls see it: all CPUs of a per-CPU map
  std::vector<SharedPart> parts;
};

// Elements of arrays and of per-CPU values begin at multiples of 8.
constexpr size_t RoundUp8(size_t size) {
  return (size + 7) & ~size_t{7};
}

// Takes the descriptor; on failure returns false with errno set.
bool ReadMapState(Fd fd, MapState* state);

class BpfMap : public Handle<BpfMap, MapState> {
 public:
  using Handle::Handle;
  static constexpr napi_type_tag kTag = {0x8f2d1c6a7b3e4f50, 0x9a61d04e8c2b7f13};
  static constexpr const char* kName = "BpfMap";
  static Napi::FunctionReference& Slot(Addon& addon) { return addon.map; }
  static Napi::Function Define(Napi::Env env);

 private:
  Napi::Value Info(const Napi::CallbackInfo& info);
  Napi::Value Get(const Napi::CallbackInfo& info);
  Napi::Value Put(const Napi::CallbackInfo& info);
  Napi::Value PutProgram(const Napi::CallbackInfo& info);
  Napi::Value Delete(const Napi::CallbackInfo& info);
  Napi::Value PutBatch(const Napi::CallbackInfo& info);
  Napi::Value DeleteBatch(const Napi::CallbackInfo& info);
  Napi::Value ReadAll(const Napi::CallbackInfo& info);
  Napi::Value ReadBatch(const Napi::CallbackInfo& info);
  Napi::Value Mmap(const Napi::CallbackInfo& info);
  Napi::Value Munmap(const Napi::CallbackInfo& info);
  Napi::Value Pin(const Napi::CallbackInfo& info);
  Napi::Value Close(const Napi::CallbackInfo& info);

  // Parts whose memory another ArrayBuffer owns now: it stays mapped until that one is collected.
  void ForgetTransferred();
  Napi::Value Share(Napi::Env env, size_t offset, size_t length);
  Napi::Value Fail(Napi::Env env, int error, const char* op);
};

}  // namespace fairlead

#endif  // FAIRLEAD_MAP_H_
