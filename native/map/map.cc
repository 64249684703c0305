// SPDX-License-Identifier: Apache-2.0
// BpfMap: elements and pins. Batches are made in batch.cc, shared memory in shared.cc.
#include "map/map.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>

#include "map/batch.h"
#include "program/program.h"
#include "system/pin.h"

namespace fairlead {
namespace {

// Bounds the memory that one call reserves.
constexpr uint32_t kMostBatchElements = 65536;

bool IsPerCpu(uint32_t type) {
  return type == BPF_MAP_TYPE_PERCPU_HASH || type == BPF_MAP_TYPE_PERCPU_ARRAY ||
         type == BPF_MAP_TYPE_LRU_PERCPU_HASH || type == BPF_MAP_TYPE_PERCPU_CGROUP_STORAGE;
}

// A queue has no keys: the kernel wants a null pointer then.
const void* KeyPointer(Bytes key) {
  return key.empty() ? nullptr : key.data();
}

Napi::Value ToResult(Napi::Env env, const Progress& progress, const char* map) {
  Napi::Object result = Napi::Object::New(env);
  result.Set("count", Napi::Number::New(env, progress.count));
  if (progress.error != 0) {
    Failure failure = {.error = progress.error,
                       .op = progress.op,
                       .detail = std::string("map ") + map + ", after " +
                                 std::to_string(progress.count) + " elements",
                       .code = {},
                       .log = {}};
    result.Set("error", MakeError(env, failure));
  }
  return result;
}

Napi::Object ToElements(Napi::Env env, const Elements& map, const Contents& contents) {
  Napi::Object result = Napi::Object::New(env);
  size_t count = contents.count;
  result.Set("keys", CopyBytes(env, contents.keys.data(), count * map.key_bytes));
  result.Set("values", CopyBytes(env, contents.values.data(), count * map.value_bytes));
  result.Set("count", Napi::Number::New(env, contents.count));
  return result;
}

}  // namespace

bool ReadMapState(Fd fd, MapState* state) {
  uint32_t size = sizeof(state->info);
  if (!fd.is_valid() || bpf_obj_get_info_by_fd(fd.get(), &state->info, &size) != 0) return false;
  state->fd = std::move(fd);
  state->value_bytes = state->info.value_size;
  if (IsPerCpu(state->info.type)) {
    state->value_bytes = RoundUp8(state->info.value_size) * libbpf_num_possible_cpus();
  }
  return true;
}

Napi::Value BpfMap::Fail(Napi::Env env, int error, const char* op) {
  return ThrowErrno(env, error, op, std::string("map ") + state_.info.name);
}

Napi::Value BpfMap::Info(const Napi::CallbackInfo& info) {
  Napi::Object facts = Napi::Object::New(info.Env());
  facts.Set("name", Napi::String::New(info.Env(), state_.info.name));
  auto set = [&](const char* name, uint32_t value) {
    facts.Set(name, Napi::Number::New(info.Env(), value));
  };
  set("type", state_.info.type);
  set("keySize", state_.info.key_size);
  set("valueSize", state_.info.value_size);
  set("maxEntries", state_.info.max_entries);
  set("flags", state_.info.map_flags);
  set("id", state_.info.id);
  return facts;
}

Napi::Value BpfMap::Get(const Napi::CallbackInfo& info) {
  Args args(info, "map.get", &is_open_);
  Bytes key = args.ExactBytes(args.At(0), "key", state_.info.key_size);
  if (!args.ok()) return {};
  std::vector<uint8_t> value(state_.value_bytes);
  if (bpf_map_lookup_elem(state_.fd.get(), KeyPointer(key), value.data()) != 0) {
    if (errno == ENOENT) return info.Env().Undefined();
    return Fail(info.Env(), errno, "bpf_map_lookup_elem");
  }
  return CopyBytes(info.Env(), value.data(), value.size());
}

Napi::Value BpfMap::Put(const Napi::CallbackInfo& info) {
  Args args(info, "map.put", &is_open_);
  Bytes key = args.ExactBytes(args.At(0), "key", state_.info.key_size);
  Bytes value = args.ExactBytes(args.At(1), "value", state_.value_bytes);
  uint32_t flags = args.Uint32Or(args.At(2), "flags", BPF_ANY);
  if (!args.ok()) return {};
  if (bpf_map_update_elem(state_.fd.get(), KeyPointer(key), value.data(), flags) != 0) {
    return Fail(info.Env(), errno, "bpf_map_update_elem");
  }
  return info.Env().Undefined();
}

// The kernel takes its descriptor, which nothing else shows.
Napi::Value BpfMap::PutProgram(const Napi::CallbackInfo& info) {
  Args args(info, "map.putProgram", &is_open_);
  Bytes key = args.ExactBytes(args.At(0), "key", state_.info.key_size);
  BpfProgram* program = BpfProgram::Argument(args, args.At(1), "program");
  if (program == nullptr || !args.ok()) return {};
  int fd = program->state().fd.get();
  if (state_.info.type != BPF_MAP_TYPE_PROG_ARRAY)
    return Fail(info.Env(), EINVAL, "bpf_map_update_elem");
  if (bpf_map_update_elem(state_.fd.get(), KeyPointer(key), &fd, BPF_ANY) != 0) {
    return Fail(info.Env(), errno, "bpf_map_update_elem");
  }
  return info.Env().Undefined();
}

Napi::Value BpfMap::Delete(const Napi::CallbackInfo& info) {
  Args args(info, "map.delete", &is_open_);
  Bytes key = args.ExactBytes(args.At(0), "key", state_.info.key_size);
  if (!args.ok()) return {};
  if (bpf_map_delete_elem(state_.fd.get(), KeyPointer(key)) != 0) {
    if (errno == ENOENT) return Napi::Boolean::New(info.Env(), false);
    return Fail(info.Env(), errno, "bpf_map_delete_elem");
  }
  return Napi::Boolean::New(info.Env(), true);
}

Napi::Value BpfMap::PutBatch(const Napi::CallbackInfo& info) {
  Args args(info, "map.putBatch", &is_open_);
  Bytes keys = args.Elements(args.At(0), "keys", state_.info.key_size);
  Bytes values = args.Elements(args.At(1), "values", state_.value_bytes);
  if (!args.ok()) return {};
  Elements elements = {state_.fd.get(), state_.info.key_size, state_.value_bytes};
  size_t count = keys.size() / elements.key_bytes;
  if (count != values.size() / elements.value_bytes) {
    args.Refuse("keys and values must hold the same number of elements");
    return {};
  }
  return ToResult(info.Env(), fairlead::PutBatch(elements, keys.data(), values.data(), count),
                  state_.info.name);
}

Napi::Value BpfMap::DeleteBatch(const Napi::CallbackInfo& info) {
  Args args(info, "map.deleteBatch", &is_open_);
  Bytes keys = args.Elements(args.At(0), "keys", state_.info.key_size);
  if (!args.ok()) return {};
  Elements elements = {state_.fd.get(), state_.info.key_size, state_.value_bytes};
  return ToResult(info.Env(),
                  fairlead::DeleteBatch(elements, keys.data(), keys.size() / elements.key_bytes),
                  state_.info.name);
}

Napi::Value BpfMap::ReadAll(const Napi::CallbackInfo& info) {
  Args args(info, "map.readAll", &is_open_);
  if (!args.ok()) return {};
  Elements elements = {state_.fd.get(), state_.info.key_size, state_.value_bytes};
  Contents contents;
  Progress progress = fairlead::ReadAll(elements, state_.info.max_entries, &contents);
  if (progress.error != 0) return Fail(info.Env(), progress.error, progress.op);
  contents.count = progress.count;
  return ToElements(info.Env(), elements, contents);
}

Napi::Value BpfMap::ReadBatch(const Napi::CallbackInfo& info) {
  Args args(info, "map.readBatch", &is_open_);
  Elements elements = {state_.fd.get(), state_.info.key_size, state_.value_bytes};
  uint32_t count = args.Uint32(args.At(0), "count");
  Cursor cursor;
  if (!args.At(1).IsUndefined()) {
    Bytes after = args.ExactBytes(args.At(1), "after", CursorBytes(elements));
    cursor.at.assign(after.begin(), after.end());
  }
  if (count == 0 || count > kMostBatchElements) {
    args.Refuse("count must be from 1 to " + std::to_string(kMostBatchElements));
  }
  if (!args.ok()) return {};
  Contents contents;
  Progress progress = fairlead::ReadBatch(elements, count, &cursor, &contents);
  if (progress.error != 0) return Fail(info.Env(), progress.error, progress.op);
  Napi::Object result = ToElements(info.Env(), elements, contents);
  if (!cursor.is_end) {
    result.Set("next", CopyBytes(info.Env(), cursor.at.data(), cursor.at.size()));
  }
  return result;
}

Napi::Value BpfMap::Pin(const Napi::CallbackInfo& info) {
  Args args(info, "map.pin", &is_open_);
  std::string path = args.Text(args.At(0), "path");
  if (!args.ok()) return {};
  return PinObject(info.Env(), state_.fd.get(), path);
}

Napi::Function BpfMap::Define(Napi::Env env) {
  return DefineClass(
      env, kName,
      {InstanceAccessor<&BpfMap::Info>("info"), InstanceMethod<&BpfMap::Get>("get"),
       InstanceMethod<&BpfMap::Put>("put"), InstanceMethod<&BpfMap::PutProgram>("putProgram"),
       InstanceMethod<&BpfMap::Delete>("delete"), InstanceMethod<&BpfMap::PutBatch>("putBatch"),
       InstanceMethod<&BpfMap::DeleteBatch>("deleteBatch"),
       InstanceMethod<&BpfMap::ReadAll>("readAll"), InstanceMethod<&BpfMap::ReadBatch>("readBatch"),
       InstanceMethod<&BpfMap::Mmap>("mmap"), InstanceMethod<&BpfMap::Munmap>("munmap"),
       InstanceMethod<&BpfMap::Pin>("pin"), InstanceMethod<&BpfMap::Close>("close")});
}

static Napi::Value OpenPinnedMap(const Napi::CallbackInfo& info) {
  Args args(info, "openPinnedMap");
  std::string path = args.Text(args.At(0), "path");
  if (!args.ok()) return {};
  Fd fd = OpenPin(info.Env(), path, PinKind::kMap);
  if (!fd.is_valid()) return {};
  MapState state;
  if (!ReadMapState(std::move(fd), &state)) {
    return ThrowErrno(info.Env(), errno, "bpf_obj_get_info_by_fd", path);
  }
  return BpfMap::Create(info.Env(), std::move(state));
}

void RegisterMap(Napi::Env env, Addon& addon, Napi::Object exports) {
  addon.map = Napi::Persistent(BpfMap::Define(env));
  exports.Set("openPinnedMap", Napi::Function::New<OpenPinnedMap>(env, "openPinnedMap"));
}

}  // namespace fairlead
