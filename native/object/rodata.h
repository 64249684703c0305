// SPDX-License-Identifier: Apache-2.0
// Finds one `const volatile` variable of an opened object through its BTF.
#ifndef FAIRLEAD_RODATA_H_
#define FAIRLEAD_RODATA_H_

#include <bpf/libbpf.h>

#include <cstdint>
#include <span>
#include <string>

namespace fairlead {

// The variable's initial bytes, writable until the object is loaded; data() is null if there is
// none.
std::span<uint8_t> FindRodata(bpf_object* object, const std::string& variable);

}  // namespace fairlead

#endif  // FAIRLEAD_RODATA_H_
