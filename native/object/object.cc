// SPDX-License-Identifier: Apache-2.0
// BpfObject: open, configure, load, hand out maps and programs.
#include "object/object.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "map/map.h"
#include "object/fields.h"
#include "object/load.h"
#include "object/load_async.h"
#include "object/rodata.h"
#include "program/program.h"

namespace fairlead {
namespace {

// A file in memory, because libbpf takes a path. Not valid if it cannot be made: then libbpf reads
// the kernel's types.
Fd FileOf(Bytes bytes) {
  if (bytes.empty()) return Fd();
  Fd file(memfd_create("fairlead-btf", MFD_CLOEXEC));
  if (!file.is_valid() ||
      write(file.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
    return Fd();
  }
  return file;
}

}  // namespace

ObjectPointer OpenMemory(Napi::Env env, Bytes bytes, const std::string& name, Bytes kernel_types) {
  ForgetLibbpfMessages();
  Fd types = FileOf(kernel_types);
  std::string path = "/proc/self/fd/" + std::to_string(types.get());
  LIBBPF_OPTS(bpf_object_open_opts, options, .object_name = name.c_str(),
              .btf_custom_path = types.is_valid() ? path.c_str() : nullptr);
  ObjectPointer object(
      bytes.empty() ? nullptr : bpf_object__open_mem(bytes.data(), bytes.size(), &options),
      ObjectCloser{std::move(types)});
  if (!object) {
    ThrowErrno(env, bytes.empty() ? EINVAL : errno, "bpf_object__open_mem", LibbpfMessages());
  }
  return object;
}

bool BpfObject::CheckIdle(Args& args) {
  if (!args.ok()) return false;
  if (!state_.is_loading) return true;
  ThrowCode(args.env(), "STATE", kName, "is being loaded");
  return false;
}

bool BpfObject::CheckLoaded(Args& args, bool is_wanted) {
  if (!CheckIdle(args)) return false;
  if (state_.is_loaded == is_wanted) return true;
  ThrowCode(args.env(), "STATE", kName, is_wanted ? "not loaded yet" : "already loaded");
  return false;
}

bpf_map* BpfObject::FindMap(Args& args, const std::string& name) {
  bpf_map* map = bpf_object__find_map_by_name(state_.object.get(), name.c_str());
  if (map == nullptr) {
    ThrowErrno(args.env(), ENOENT, "bpf_object__find_map_by_name", "no map " + name);
  }
  return map;
}

bpf_program* BpfObject::FindProgram(Args& args, const std::string& name) {
  bpf_program* program = bpf_object__find_program_by_name(state_.object.get(), name.c_str());
  if (program == nullptr) {
    ThrowErrno(args.env(), ENOENT, "bpf_object__find_program_by_name", "no program " + name);
  }
  return program;
}

Napi::Value BpfObject::SetRodata(const Napi::CallbackInfo& info) {
  Args args(info, "object.setRodata", &is_open_);
  std::string variable = args.Text(args.At(0), "variable");
  args.AnyBytes(args.At(1), "value");
  if (!CheckLoaded(args, false)) return {};
  std::span<uint8_t> target = FindRodata(state_.object.get(), variable);
  if (target.data() == nullptr) {
    return ThrowErrno(info.Env(), ENOENT, "object.setRodata", "no read-only variable " + variable);
  }
  Bytes value = args.ExactBytes(args.At(1), variable.c_str(), target.size());
  if (!args.ok()) return {};
  std::copy(value.begin(), value.end(), target.begin());
  return info.Env().Undefined();
}

Napi::Value BpfObject::SetMaxEntries(const Napi::CallbackInfo& info) {
  Args args(info, "object.setMaxEntries", &is_open_);
  std::string name = args.Text(args.At(0), "map");
  uint32_t max_entries = args.Uint32(args.At(1), "maxEntries");
  if (!CheckLoaded(args, false)) return {};
  bpf_map* map = FindMap(args, name);
  if (map == nullptr) return {};
  int status = bpf_map__set_max_entries(map, max_entries);
  if (status != 0) return ThrowErrno(info.Env(), -status, "bpf_map__set_max_entries", name);
  return info.Env().Undefined();
}

Napi::Value BpfObject::SetAutoload(const Napi::CallbackInfo& info) {
  Args args(info, "object.setAutoload", &is_open_);
  std::string name = args.Text(args.At(0), "program");
  bool is_loaded = args.Boolean(args.At(1), "isLoaded");
  if (!CheckLoaded(args, false)) return {};
  bpf_program* program = FindProgram(args, name);
  if (program != nullptr) bpf_program__set_autoload(program, is_loaded);
  return info.Env().Undefined();
}

Napi::Value BpfObject::SetExpectedAttachType(const Napi::CallbackInfo& info) {
  Args args(info, "object.setExpectedAttachType", &is_open_);
  std::string name = args.Text(args.At(0), "program");
  uint32_t type = args.Uint32(args.At(1), "attachType");
  if (!CheckLoaded(args, false)) return {};
  bpf_program* program = FindProgram(args, name);
  if (program != nullptr) {
    bpf_program__set_expected_attach_type(program, static_cast<bpf_attach_type>(type));
  }
  return info.Env().Undefined();
}

Napi::Value BpfObject::SetProgramFlags(const Napi::CallbackInfo& info) {
  Args args(info, "object.setProgramFlags", &is_open_);
  std::string name = args.Text(args.At(0), "program");
  uint32_t flags = args.Uint32(args.At(1), "flags");
  if (!CheckLoaded(args, false)) return {};
  bpf_program* program = FindProgram(args, name);
  if (program == nullptr) return {};
  int status = bpf_program__set_flags(program, flags);
  if (status != 0) return ThrowErrno(info.Env(), -status, "bpf_program__set_flags", name);
  return info.Env().Undefined();
}

Napi::Value BpfObject::Load(const Napi::CallbackInfo& info) {
  Args args(info, "object.load", &is_open_);
  if (!CheckLoaded(args, false)) return {};
  state_.kernel_types.clear();
  Failure failure;
  if (!LoadObject(state_.object.get(), &failure)) return Throw(info.Env(), failure);
  state_.is_loaded = true;
  return info.Env().Undefined();
}

void BpfObject::EndLoading(bool is_loaded) {
  state_.is_loading = false;
  state_.is_loaded = is_loaded;
}

Napi::Value BpfObject::LoadAsync(const Napi::CallbackInfo& info) {
  Args args(info, "object.loadAsync", &is_open_);
  if (!CheckLoaded(args, false)) return {};
  state_.is_loading = true;
  state_.kernel_types.clear();
  return QueueLoad(*this);
}

Napi::Value BpfObject::Maps(const Napi::CallbackInfo& info) {
  Args args(info, "object.maps", &is_open_);
  if (!CheckIdle(args)) return {};
  Napi::Array names = Napi::Array::New(info.Env());
  bpf_map* map = nullptr;
  bpf_object__for_each_map(map, state_.object.get()) {
    names.Set(names.Length(), Napi::String::New(info.Env(), bpf_map__name(map)));
  }
  return names;
}

Napi::Value BpfObject::Programs(const Napi::CallbackInfo& info) {
  Args args(info, "object.programs", &is_open_);
  if (!CheckIdle(args)) return {};
  Napi::Array programs = Napi::Array::New(info.Env());
  bpf_program* program = nullptr;
  bpf_object__for_each_program(program, state_.object.get()) {
    Napi::Object entry = Napi::Object::New(info.Env());
    entry.Set("name", Napi::String::New(info.Env(), bpf_program__name(program)));
    entry.Set("section", Napi::String::New(info.Env(), bpf_program__section_name(program)));
    programs.Set(programs.Length(), entry);
  }
  return programs;
}

Napi::Value BpfObject::MapLayout(const Napi::CallbackInfo& info) {
  Args args(info, "object.mapLayout", &is_open_);
  std::string name = args.Text(args.At(0), "map");
  if (!CheckIdle(args)) return {};
  bpf_map* map = FindMap(args, name);
  if (map == nullptr) return {};
  const btf* types = bpf_object__btf(state_.object.get());
  auto fields = [&](uint32_t id) {
    return Napi::String::New(info.Env(), types == nullptr ? "" : FieldsOf(types, id));
  };
  Napi::Object layout = Napi::Object::New(info.Env());
  layout.Set("key", fields(bpf_map__btf_key_type_id(map)));
  layout.Set("value", fields(bpf_map__btf_value_type_id(map)));
  layout.Set("maxEntries", Napi::Number::New(info.Env(), bpf_map__max_entries(map)));
  return layout;
}

Napi::Value BpfObject::Map(const Napi::CallbackInfo& info) {
  Args args(info, "object.map", &is_open_);
  std::string name = args.Text(args.At(0), "name");
  if (!CheckLoaded(args, true)) return {};
  bpf_map* map = FindMap(args, name);
  if (map == nullptr) return {};
  MapState state;
  if (!ReadMapState(Fd::Duplicate(bpf_map__fd(map)), &state)) {
    return ThrowErrno(info.Env(), errno, "bpf_obj_get_info_by_fd", name);
  }
  return BpfMap::Create(info.Env(), std::move(state));
}

Napi::Value BpfObject::Program(const Napi::CallbackInfo& info) {
  Args args(info, "object.program", &is_open_);
  std::string name = args.Text(args.At(0), "name");
  if (!CheckLoaded(args, true)) return {};
  bpf_program* program = FindProgram(args, name);
  if (program == nullptr) return {};
  if (bpf_program__fd(program) < 0) {
    return ThrowCode(info.Env(), "STATE", "object.program", name + " was not loaded");
  }
  ProgramState state;
  if (!ReadProgramState(Fd::Duplicate(bpf_program__fd(program)), name, &state)) {
    return ThrowErrno(info.Env(), errno, "bpf_obj_get_info_by_fd", name);
  }
  state.attach_type = bpf_program__expected_attach_type(program);
  return BpfProgram::Create(info.Env(), std::move(state));
}

Napi::Value BpfObject::Close(const Napi::CallbackInfo& info) {
  is_open_ = false;
  state_.object.reset();
  state_.kernel_types.clear();
  return info.Env().Undefined();
}

Napi::Function BpfObject::Define(Napi::Env env) {
  return DefineClass(
      env, kName,
      {InstanceMethod<&BpfObject::SetRodata>("setRodata"),
       InstanceMethod<&BpfObject::SetMaxEntries>("setMaxEntries"),
       InstanceMethod<&BpfObject::ReusePin>("reusePin"),
       InstanceMethod<&BpfObject::ReuseMap>("reuseMap"),
       InstanceMethod<&BpfObject::SetAutoload>("setAutoload"),
       InstanceMethod<&BpfObject::SetExpectedAttachType>("setExpectedAttachType"),
       InstanceMethod<&BpfObject::SetProgramFlags>("setProgramFlags"),
       InstanceMethod<&BpfObject::Load>("load"), InstanceMethod<&BpfObject::LoadAsync>("loadAsync"),
       InstanceAccessor<&BpfObject::Maps>("maps"),
       InstanceAccessor<&BpfObject::Programs>("programs"),
       InstanceMethod<&BpfObject::MapLayout>("mapLayout"), InstanceMethod<&BpfObject::Map>("map"),
       InstanceMethod<&BpfObject::Program>("program"), InstanceMethod<&BpfObject::Close>("close")});
}

static Napi::Value OpenObject(const Napi::CallbackInfo& info) {
  Args args(info, "openObject");
  Napi::Value name_value = args.Option(1, "name");
  std::string name = "object";
  if (!name_value.IsUndefined()) name = args.Text(name_value, "name");
  Napi::Value types_value = args.Option(1, "kernelTypes");
  Bytes kernel_types = {};
  if (!types_value.IsUndefined()) kernel_types = args.AnyBytes(types_value, "kernelTypes");
  Bytes bytes = args.AnyBytes(args.At(0), "bytes");
  if (!args.ok()) return {};
  ObjectPointer object = OpenMemory(info.Env(), bytes, name, kernel_types);
  if (!object) return {};
  ObjectState state;
  state.object = std::move(object);
  return BpfObject::Create(info.Env(), std::move(state));
}

void RegisterObject(Napi::Env env, Addon& addon, Napi::Object exports) {
  addon.object = Napi::Persistent(BpfObject::Define(env));
  exports.Set("openObject", Napi::Function::New<OpenObject>(env, "openObject"));
}

}  // namespace fairlead
