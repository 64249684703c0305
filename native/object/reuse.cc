// SPDX-License-Identifier: Apache-2.0
// BpfObject: using a map that is already there instead of a new one, if it fits in every field.
#include <bpf/bpf.h>
#include <errno.h>

#include "map/map.h"
#include "object/layout.h"
#include "object/object.h"
#include "system/pin.h"

namespace fairlead {
namespace {

// Lists every field in which the map differs from the declaration: "value size 8, not 16; …".
std::string Differences(const bpf_map* declared, const bpf_map_info& actual) {
  std::string all;
  auto compare = [&](const char* field, uint32_t wanted, uint32_t found) {
    if (wanted == found) return;
    all += (all.empty() ? "" : "; ") + std::string(field) + " " + std::to_string(found) + ", not " +
           std::to_string(wanted);
  };
  compare("type", bpf_map__type(declared), actual.type);
  compare("key size", bpf_map__key_size(declared), actual.key_size);
  compare("value size", bpf_map__value_size(declared), actual.value_size);
  compare("max entries", bpf_map__max_entries(declared), actual.max_entries);
  compare("flags", bpf_map__map_flags(declared), actual.map_flags);
  return all;
}

}  // namespace

Napi::Value BpfObject::Reuse(Args& args, bpf_map* map, int fd, const std::string& from) {
  bpf_map_info actual = {};
  uint32_t size = sizeof(actual);
  if (bpf_obj_get_info_by_fd(fd, &actual, &size) != 0) {
    return ThrowErrno(args.env(), errno, "bpf_obj_get_info_by_fd", from);
  }
  std::string differences = Differences(map, actual);
  std::string layout = MapLayoutDifference(map, state_.object.get(), actual, &state_.kernel_types);
  if (!layout.empty()) differences += (differences.empty() ? "" : "; ") + layout;
  if (!differences.empty()) {
    return ThrowCode(args.env(), "INCOMPATIBLE", "bpf_map__reuse_fd",
                     from + " does not fit map " + bpf_map__name(map) + ": " + differences);
  }
  int status = bpf_map__reuse_fd(map, fd);
  if (status != 0) return ThrowErrno(args.env(), -status, "bpf_map__reuse_fd", from);
  return Napi::Boolean::New(args.env(), true);
}

Napi::Value BpfObject::ReusePin(const Napi::CallbackInfo& info) {
  Args args(info, "object.reusePin", &is_open_);
  std::string name = args.Text(args.At(0), "map");
  std::string path = args.Text(args.At(1), "path");
  if (!CheckLoaded(args, false)) return {};
  bpf_map* map = FindMap(args, name);
  if (map == nullptr) return {};
  if (access(path.c_str(), F_OK) != 0 && errno == ENOENT) {
    return Napi::Boolean::New(info.Env(), false);
  }
  Fd fd = OpenPin(info.Env(), path, PinKind::kMap);
  return fd.is_valid() ? Reuse(args, map, fd.get(), path) : Napi::Value();
}

Napi::Value BpfObject::ReuseMap(const Napi::CallbackInfo& info) {
  Args args(info, "object.reuseMap", &is_open_);
  std::string name = args.Text(args.At(0), "map");
  BpfMap* from = BpfMap::Argument(args, args.At(1), "from");
  if (from == nullptr || !CheckLoaded(args, false)) return {};
  bpf_map* map = FindMap(args, name);
  if (map == nullptr) return {};
  MapState& source = from->state();
  Reuse(args, map, source.fd.get(), std::string("map ") + source.info.name);
  return info.Env().Undefined();
}

}  // namespace fairlead
