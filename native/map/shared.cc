// SPDX-License-Identifier: Apache-2.0
// BpfMap: the memory of an array, whole or in parts, as ArrayBuffers, and their end.
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include <utility>

#include "map/map.h"

namespace fairlead {

void Mapping::Unmap() {
  if (address_ != nullptr) munmap(std::exchange(address_, nullptr), size_);
}

bool SharedPart::IsTransferred() const {
  return buffer.Value().IsDetached();
}

// ArrayBuffer.prototype.transfer() (Node 22) detaches ours and hands the memory to another
// ArrayBuffer, which then keeps it until it is collected: unmapping it here would leave that one
// pointing at nothing.
void SharedPart::Close() {
  const bool is_transferred = IsTransferred();
  if (!is_transferred) buffer.Value().Detach();
  buffer.Reset();
  if (!is_transferred) mapping->Unmap();
}

void BpfMap::ForgetTransferred() {
  std::erase_if(state_.parts, [](const SharedPart& part) { return part.IsTransferred(); });
}

Napi::Value BpfMap::Mmap(const Napi::CallbackInfo& info) {
  Args args(info, "map.mmap", &is_open_);
  const size_t all = RoundUp8(state_.info.value_size) * state_.info.max_entries;
  const size_t offset = args.Uint32Or(args.At(0), "offset", 0);
  const bool is_whole = args.At(1).IsUndefined();
  size_t length = args.Uint32Or(args.At(1), "length", 0);
  if (!args.ok()) return {};
  if (state_.info.type != BPF_MAP_TYPE_ARRAY || !(state_.info.map_flags & BPF_F_MMAPABLE)) {
    return Fail(info.Env(), ENOTSUP, "mmap");
  }
  if (offset >= all || offset % static_cast<size_t>(sysconf(_SC_PAGESIZE)) != 0) {
    args.Refuse("offset must be the start of a page of the array");
    return {};
  }
  if (is_whole) length = all - offset;
  if (length == 0 || length > all - offset) {
    args.Refuse("length must be 1 to the rest of the array");
    return {};
  }
  ForgetTransferred();
  for (const SharedPart& part : state_.parts) {
    if (part.offset == offset && part.length == length) return part.buffer.Value();
  }
  return Share(info.Env(), offset, length);
}

// The kernel maps whole pages; node marks external buffers as not transferable, so no other thread
// can keep the memory past the detach in Close.
Napi::Value BpfMap::Share(Napi::Env env, size_t offset, size_t length) {
  void* address = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, state_.fd.get(),
                       static_cast<off_t>(offset));
  if (address == MAP_FAILED) return Fail(env, errno, "mmap");
  auto mapping = std::make_shared<Mapping>(address, length);
  auto* held = new std::shared_ptr<Mapping>(mapping);
  auto drop = [](napi_env, void*, void* hint) {
    delete static_cast<std::shared_ptr<Mapping>*>(hint);
  };
  napi_value buffer = nullptr;
  if (napi_create_external_arraybuffer(env, address, length, drop, held, &buffer) != napi_ok) {
    delete held;
    return Fail(env, ENOMEM, "napi_create_external_arraybuffer");
  }
  state_.parts.push_back(
      {offset, length, std::move(mapping), Napi::Persistent(Napi::ArrayBuffer(env, buffer))});
  return state_.parts.back().buffer.Value();
}

Napi::Value BpfMap::Munmap(const Napi::CallbackInfo& info) {
  Args args(info, "map.munmap", &is_open_);
  if (!args.ok()) return {};
  ForgetTransferred();
  for (auto part = state_.parts.begin(); part != state_.parts.end(); ++part) {
    if (!part->buffer.Value().StrictEquals(args.At(0))) continue;
    part->Close();
    state_.parts.erase(part);
    return info.Env().Undefined();
  }
  args.Refuse("memory was not returned by this map's mmap(), or was unmapped or transferred since");
  return {};
}

Napi::Value BpfMap::Close(const Napi::CallbackInfo& info) {
  is_open_ = false;
  for (SharedPart& part : state_.parts) part.Close();
  state_.parts.clear();
  state_.fd.Reset();
  return info.Env().Undefined();
}

}  // namespace fairlead
