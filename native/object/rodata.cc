// SPDX-License-Identifier: Apache-2.0
// See rodata.h.
#include "object/rodata.h"

#include <bpf/btf.h>

namespace fairlead {
namespace {

// The entry of `variable` in one data section, or null.
const btf_var_secinfo* FindVariable(const btf* types, const btf_type* section,
                                    const std::string& variable) {
  const btf_var_secinfo* entries = btf_var_secinfos(section);
  for (int i = 0; i < btf_vlen(section); i++) {
    const btf_type* type = btf__type_by_id(types, entries[i].type);
    if (variable == btf__name_by_offset(types, type->name_off)) return &entries[i];
  }
  return nullptr;
}

std::span<uint8_t> BytesOf(bpf_object* object, const char* section, const btf_var_secinfo* entry) {
  bpf_map* map = bpf_object__find_map_by_name(object, section);
  size_t size = 0;
  const void* bytes = map ? bpf_map__initial_value(map, &size) : nullptr;
  if (bytes == nullptr || size_t{entry->offset} + entry->size > size) return {};
  // libbpf hands out its own copy as const; it is meant to be written before load.
  return {static_cast<uint8_t*>(const_cast<void*>(bytes)) + entry->offset, entry->size};
}

}  // namespace

std::span<uint8_t> FindRodata(bpf_object* object, const std::string& variable) {
  const btf* types = bpf_object__btf(object);
  for (uint32_t id = 1; types != nullptr && id < btf__type_cnt(types); id++) {
    const btf_type* type = btf__type_by_id(types, id);
    if (!btf_is_datasec(type)) continue;
    const char* section = btf__name_by_offset(types, type->name_off);
    if (!std::string(section).starts_with(".rodata")) continue;
    if (const btf_var_secinfo* entry = FindVariable(types, type, variable)) {
      return BytesOf(object, section, entry);
    }
  }
  return {};
}

}  // namespace fairlead
