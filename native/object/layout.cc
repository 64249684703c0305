// SPDX-License-Identifier: Apache-2.0
// See layout.h.
#include "object/layout.h"

#include <string.h>

namespace fairlead {
namespace {

const btf_type* Resolve(Layout layout) {
  const btf_type* type = btf__type_by_id(layout.types, layout.id);
  while (type && (btf_is_mod(type) || btf_is_typedef(type))) {
    type = btf__type_by_id(layout.types, type->type);
  }
  return type;
}

const char* NameOf(const btf* types, uint32_t offset) {
  return btf__name_by_offset(types, offset);
}

const char* KindName(const btf_type* type) {
  if (btf_is_struct(type)) return "a struct";
  if (btf_is_union(type)) return "a union";
  if (btf_is_array(type)) return "an array";
  if (btf_is_any_enum(type)) return "an enum";
  if (btf_is_int(type)) return "a number";
  if (btf_is_ptr(type)) return "a pointer";
  return "another kind of type";
}

// "value.state is at byte 4, not at byte 8": the layout found comes first.
std::string Differs(const std::string& path, const std::string& found, const std::string& wanted) {
  return path + " is " + found + ", not " + wanted;
}

std::string Bytes(uint32_t count) {
  return std::to_string(count) + " bytes";
}

std::string MemberLocation(const btf_type* owner, int index) {
  uint32_t bits = btf_member_bit_offset(owner, index);
  uint32_t width = btf_member_bitfield_size(owner, index);
  if (width == 0) return "at byte " + std::to_string(bits / 8);
  return "at bit " + std::to_string(bits) + ", " + std::to_string(width) + " bits wide";
}

std::string CompareMember(const std::string& path, Layout wanted, const btf_type* wanted_owner,
                          Layout found, const btf_type* found_owner, int index) {
  const btf_member& wanted_member = btf_members(wanted_owner)[index];
  const btf_member& found_member = btf_members(found_owner)[index];
  const char* wanted_name = NameOf(wanted.types, wanted_member.name_off);
  const char* found_name = NameOf(found.types, found_member.name_off);
  std::string there = MemberLocation(found_owner, index);
  std::string here = MemberLocation(wanted_owner, index);
  if (strcmp(wanted_name, found_name) != 0) {
    return Differs(path + " " + there, std::string("field ") + found_name,
                   std::string("field ") + wanted_name);
  }
  std::string field = *wanted_name == '\0' ? path : path + "." + wanted_name;
  if (there != here) return Differs(field, there, here);
  return LayoutDifference(field, {wanted.types, wanted_member.type},
                          {found.types, found_member.type});
}

std::string CompareMembers(const std::string& path, Layout wanted, const btf_type* wanted_type,
                           Layout found, const btf_type* found_type) {
  int count = btf_vlen(wanted_type);
  for (int i = 0; i < count && i < btf_vlen(found_type); i++) {
    std::string difference = CompareMember(path, wanted, wanted_type, found, found_type, i);
    if (!difference.empty()) return difference;
  }
  if (count == btf_vlen(found_type)) return "";
  auto fields = [](int number) { return std::to_string(number) + " fields"; };
  return Differs(path, fields(btf_vlen(found_type)), fields(count));
}

// A name in both must have the same number; a name in only one of them is an addition.
std::string CompareEnums(const std::string& path, Layout wanted, const btf_type* wanted_type,
                         Layout found, const btf_type* found_type) {
  if (!btf_is_enum(wanted_type) || !btf_is_enum(found_type)) return "";
  for (int i = 0; i < btf_vlen(wanted_type); i++) {
    const struct btf_enum& one = btf_enum(wanted_type)[i];
    const char* name = NameOf(wanted.types, one.name_off);
    for (int j = 0; j < btf_vlen(found_type); j++) {
      const struct btf_enum& other = btf_enum(found_type)[j];
      if (strcmp(name, NameOf(found.types, other.name_off)) == 0 && one.val != other.val) {
        return Differs(path + ": " + name, std::to_string(other.val), std::to_string(one.val));
      }
    }
  }
  return "";
}

}  // namespace

std::string LayoutDifference(const std::string& path, Layout wanted, Layout found) {
  const btf_type* here = Resolve(wanted);
  const btf_type* there = Resolve(found);
  if (here == nullptr || there == nullptr) return here == there ? "" : path + " has no type";
  if (btf_is_any_enum(here) != btf_is_any_enum(there) ||
      (!btf_is_any_enum(here) && btf_kind(here) != btf_kind(there))) {
    return Differs(path, KindName(there), KindName(here));
  }
  if (btf_is_ptr(here)) return "";
  if (btf_is_array(here)) {
    const struct btf_array* mine = btf_array(here);
    const struct btf_array* theirs = btf_array(there);
    std::string element =
        LayoutDifference(path + "[]", {wanted.types, mine->type}, {found.types, theirs->type});
    if (!element.empty() || mine->nelems == theirs->nelems) return element;
    return Differs(path, std::to_string(theirs->nelems) + " elements",
                   std::to_string(mine->nelems));
  }
  if (btf_is_composite(here)) {
    std::string member = CompareMembers(path, wanted, here, found, there);
    if (!member.empty()) return member;
  }
  if (here->size != there->size) return Differs(path, Bytes(there->size), Bytes(here->size));
  if (btf_is_int(here) && btf_int_encoding(here) != btf_int_encoding(there)) {
    auto sign = [](const btf_type* type) {
      return btf_int_encoding(type) & BTF_INT_SIGNED ? "signed" : "unsigned";
    };
    return Differs(path, sign(there), sign(here));
  }
  return btf_is_any_enum(here) ? CompareEnums(path, wanted, here, found, there) : "";
}

std::string MapLayoutDifference(const bpf_map* wanted, const bpf_object* object,
                                const bpf_map_info& found, KernelTypes* types) {
  const btf* declared = bpf_object__btf(object);
  if (declared == nullptr || found.btf_id == 0) return "";
  std::unique_ptr<btf, BtfFreer>& existing = (*types)[found.btf_id];
  if (!existing) existing.reset(btf__load_from_kernel_by_id(found.btf_id));
  if (!existing) return "";
  auto compare = [&](const char* part, uint32_t mine, uint32_t theirs) -> std::string {
    if (mine == 0 || theirs == 0) return "";
    return LayoutDifference(part, {declared, mine}, {existing.get(), theirs});
  };
  std::string key = compare("key", bpf_map__btf_key_type_id(wanted), found.btf_key_type_id);
  if (!key.empty()) return key;
  return compare("value", bpf_map__btf_value_type_id(wanted), found.btf_value_type_id);
}

}  // namespace fairlead
