// SPDX-License-Identifier: Apache-2.0
// Compares the layout of a map that exists with the one an object declares, through the BTF of
// both.
#ifndef FAIRLEAD_LAYOUT_H_
#define FAIRLEAD_LAYOUT_H_

#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>

#include <map>
#include <memory>
#include <string>

namespace fairlead {

struct BtfFreer {
  void operator()(btf* types) const { btf__free(types); }
};

// The BTF of maps that exist, by its id: all maps of one object have the same, which is read once.
using KernelTypes = std::map<uint32_t, std::unique_ptr<btf, BtfFreer>>;

struct Layout {
  const btf* types;
  uint32_t id;
};

// Names the first field, by its path, whose bytes would be read with another meaning than they were
// written with: "value.state is at byte 4, not at byte 8". Names of fields are compared, names of
// types are not. Empty if there is none.
std::string LayoutDifference(const std::string& path, Layout wanted, Layout found);

// The same for key and value of a map by its BTF; empty if the kernel has none for it.
std::string MapLayoutDifference(const bpf_map* wanted, const bpf_object* object,
                                const bpf_map_info& found, KernelTypes* types);

}  // namespace fairlead

#endif  // FAIRLEAD_LAYOUT_H_
