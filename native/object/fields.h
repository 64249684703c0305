// SPDX-License-Identifier: Apache-2.0
// The fields of a type, down to those that have none themselves.
#ifndef FAIRLEAD_FIELDS_H_
#define FAIRLEAD_FIELDS_H_

#include <bpf/btf.h>

#include <string>

namespace fairlead {

// "flow.check 0 32,backend_address 384 32": path, first bit and width in bits of each field. An
// array of bytes is one field. A type without fields is one field with an empty path. Empty if
// there is no such type.
std::string FieldsOf(const btf* types, uint32_t id);

}  // namespace fairlead

#endif  // FAIRLEAD_FIELDS_H_
