// SPDX-License-Identifier: Apache-2.0
// BpfMap: the memory of an array as an ArrayBuffer, and its end.
#include <errno.h>
#include <sys/mman.h>

#include <utility>

#include "map.h"

namespace fairlead {

void Mapping::Unmap() {
  if (address_ != nullptr) munmap(std::exchange(address_, nullptr), size_);
}

Napi::Value BpfMap::Mmap(const Napi::CallbackInfo& info) {
  Args args(info, "map.mmap", &is_open_);
  if (!args.ok()) return {};
  if (!state_.buffer.IsEmpty()) return state_.buffer.Value();
  if (state_.info.type != BPF_MAP_TYPE_ARRAY || !(state_.info.map_flags & BPF_F_MMAPABLE)) {
    return Fail(info.Env(), ENOTSUP, "mmap");
  }
  return Share(info.Env(), RoundUp8(state_.info.value_size) * state_.info.max_entries);
}

// The kernel maps whole pages from offset 0; node marks external buffers as not transferable, so no
// other thread can keep the memory past the detach in Close.
Napi::Value BpfMap::Share(Napi::Env env, size_t length) {
  void* address = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, state_.fd.get(), 0);
  if (address == MAP_FAILED) return Fail(env, errno, "mmap");
  state_.mapping = std::make_shared<Mapping>(address, length);
  auto* held = new std::shared_ptr<Mapping>(state_.mapping);
  auto drop = [](napi_env, void*, void* hint) {
    delete static_cast<std::shared_ptr<Mapping>*>(hint);
  };
  napi_value buffer = nullptr;
  if (napi_create_external_arraybuffer(env, address, length, drop, held, &buffer) != napi_ok) {
    delete held;
    state_.mapping.reset();
    return Fail(env, ENOMEM, "napi_create_external_arraybuffer");
  }
  state_.buffer = Napi::Persistent(Napi::ArrayBuffer(env, buffer));
  return state_.buffer.Value();
}

Napi::Value BpfMap::Close(const Napi::CallbackInfo& info) {
  is_open_ = false;
  if (!state_.buffer.IsEmpty()) {
    state_.buffer.Value().Detach();
    state_.buffer.Reset();
  }
  if (state_.mapping) state_.mapping->Unmap();
  state_.mapping.reset();
  state_.fd.Reset();
  return info.Env().Undefined();
}

}  // namespace fairlead
