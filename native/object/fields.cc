// SPDX-License-Identifier: Apache-2.0
// See fields.h.
#include "object/fields.h"

namespace fairlead {
namespace {

class Fields {
 public:
  explicit Fields(const btf* types) : types_(types) {}

  void Add(const std::string& path, uint32_t id, uint32_t bit, uint32_t width) {
    const btf_type* type = Resolve(id);
    if (type == nullptr) return;
    if (btf_is_composite(type)) return AddMembers(path, type, bit);
    if (btf_is_array(type) && !IsBytes(btf_array(type))) return AddElements(path, type, bit);
    uint32_t bits = width == 0 ? 8 * btf__resolve_size(types_, id) : width;
    all_ +=
        (all_.empty() ? "" : ",") + path + " " + std::to_string(bit) + " " + std::to_string(bits);
  }

  const std::string& all() const { return all_; }

 private:
  const btf_type* Resolve(uint32_t id) const {
    const btf_type* type = btf__type_by_id(types_, id);
    while (type && (btf_is_mod(type) || btf_is_typedef(type)))
      type = btf__type_by_id(types_, type->type);
    return type;
  }

  bool IsBytes(const struct btf_array* array) const {
    const btf_type* element = Resolve(array->type);
    return element && btf_is_int(element) && element->size == 1;
  }

  void AddMembers(const std::string& path, const btf_type* owner, uint32_t bit) {
    for (int i = 0; i < btf_vlen(owner); i++) {
      const btf_member& member = btf_members(owner)[i];
      std::string name = btf__name_by_offset(types_, member.name_off);
      std::string dot = path.empty() || name.empty() ? "" : ".";
      Add(path + dot + name, member.type, bit + btf_member_bit_offset(owner, i),
          btf_member_bitfield_size(owner, i));
    }
  }

  void AddElements(const std::string& path, const btf_type* owner, uint32_t bit) {
    const struct btf_array* array = btf_array(owner);
    uint32_t bits = 8 * btf__resolve_size(types_, array->type);
    for (uint32_t i = 0; i < array->nelems; i++)
      Add(path + "[" + std::to_string(i) + "]", array->type, bit + i * bits, 0);
  }

  const btf* types_;
  std::string all_;
};

}  // namespace

std::string FieldsOf(const btf* types, uint32_t id) {
  Fields fields(types);
  fields.Add("", id, 0, 0);
  return fields.all();
}

}  // namespace fairlead
