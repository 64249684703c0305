// SPDX-License-Identifier: Apache-2.0
// readBtf: layouts of the named structs and values of the named enums of an object, through its
// BTF.
#include <bpf/btf.h>
#include <errno.h>

#include "addon.h"
#include "binding/args.h"
#include "binding/error.h"
#include "object/object.h"

namespace fairlead {
namespace {

struct Types {
  Napi::Env env;
  const btf* all;
  const char* NameOf(uint32_t offset) const { return btf__name_by_offset(all, offset); }
};

const btf_type* SkipModifiers(const btf* all, uint32_t id) {
  const btf_type* type = btf__type_by_id(all, id);
  while (type && (btf_is_mod(type) || btf_is_typedef(type)))
    type = btf__type_by_id(all, type->type);
  return type;
}

Napi::Object Field(const Types& types, const btf_type* owner, int index, uint32_t base_bits) {
  const btf_member& member = btf_members(owner)[index];
  uint32_t bits = base_bits + btf_member_bit_offset(owner, index);
  uint32_t width = btf_member_bitfield_size(owner, index);
  Napi::Object field = Napi::Object::New(types.env);
  auto set = [&](const char* name, double value) {
    field.Set(name, Napi::Number::New(types.env, value));
  };
  field.Set("name", Napi::String::New(types.env, types.NameOf(member.name_off)));
  set("offsetBytes", bits / 8);
  set("sizeBytes", btf__resolve_size(types.all, member.type));
  if (width != 0) {
    set("bitOffset", bits);
    set("bitWidth", width);
  }
  return field;
}

// Members of anonymous structs and unions count as the owner's, as in C.
void AddFields(const Types& types, const btf_type* owner, uint32_t base_bits, Napi::Array fields) {
  for (int i = 0; i < btf_vlen(owner); i++) {
    const btf_member& member = btf_members(owner)[i];
    const btf_type* inner = SkipModifiers(types.all, member.type);
    if (types.NameOf(member.name_off)[0] != '\0') {
      fields.Set(fields.Length(), Field(types, owner, i, base_bits));
    } else if (inner && btf_is_composite(inner)) {
      AddFields(types, inner, base_bits + btf_member_bit_offset(owner, i), fields);
    }
  }
}

Napi::Object Struct(const Types& types, const btf_type* type) {
  Napi::Object layout = Napi::Object::New(types.env);
  Napi::Array fields = Napi::Array::New(types.env);
  AddFields(types, type, 0, fields);
  layout.Set("name", Napi::String::New(types.env, types.NameOf(type->name_off)));
  layout.Set("sizeBytes", Napi::Number::New(types.env, type->size));
  layout.Set("fields", fields);
  return layout;
}

double ValueOf(const btf_type* type, int index) {
  bool is_signed = btf_kflag(type);
  if (btf_is_enum64(type)) {
    uint64_t value = btf_enum64_value(&btf_enum64(type)[index]);
    return is_signed ? static_cast<double>(static_cast<int64_t>(value)) : value;
  }
  double value = btf_enum(type)[index].val;
  return is_signed || value >= 0 ? value : value + 0x1p32;
}

Napi::Object Enum(const Types& types, const btf_type* type) {
  Napi::Object values = Napi::Object::New(types.env);
  for (int i = 0; i < btf_vlen(type); i++) {
    uint32_t name = btf_is_enum64(type) ? btf_enum64(type)[i].name_off : btf_enum(type)[i].name_off;
    values.Set(types.NameOf(name), Napi::Number::New(types.env, ValueOf(type, i)));
  }
  Napi::Object result = Napi::Object::New(types.env);
  result.Set("name", Napi::String::New(types.env, types.NameOf(type->name_off)));
  result.Set("values", values);
  return result;
}

Napi::Value ReadBtf(const Napi::CallbackInfo& info) {
  Args args(info, "readBtf");
  Bytes bytes = args.AnyBytes(args.At(0), "bytes");
  if (!args.ok()) return {};
  ObjectPointer object = OpenMemory(info.Env(), bytes, "object");
  if (!object) return {};
  Types types = {info.Env(), bpf_object__btf(object.get())};
  if (types.all == nullptr) return ThrowErrno(info.Env(), ENODATA, "bpf_object__btf", "no BTF");
  Napi::Array structs = Napi::Array::New(info.Env());
  Napi::Array enums = Napi::Array::New(info.Env());
  for (uint32_t id = 1; id < btf__type_cnt(types.all); id++) {
    const btf_type* type = btf__type_by_id(types.all, id);
    if (type->name_off == 0) continue;
    if (btf_is_struct(type)) structs.Set(structs.Length(), Struct(types, type));
    if (btf_is_any_enum(type)) enums.Set(enums.Length(), Enum(types, type));
  }
  Napi::Object result = Napi::Object::New(info.Env());
  result.Set("structs", structs);
  result.Set("enums", enums);
  return result;
}

}  // namespace

void RegisterInspect(Napi::Env env, Addon&, Napi::Object exports) {
  exports.Set("readBtf", Napi::Function::New<ReadBtf>(env, "readBtf"));
}

}  // namespace fairlead
