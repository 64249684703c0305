// SPDX-License-Identifier: Apache-2.0
// What is attached to a hook, in the order in which it runs (BPF_PROG_QUERY).
#ifndef FAIRLEAD_PROG_QUERY_H_
#define FAIRLEAD_PROG_QUERY_H_

#include <napi.h>

#include <cstdint>
#include <string>

namespace fairlead {

// `target`: an ifindex, or a descriptor of a cgroup. Link ids are asked for where the kernel has
// them (tcx). Undefined, if the kernel does not know the attach type; else a list, or an exception.
Napi::Value QueryPrograms(Napi::Env env, uint32_t target, uint32_t attach_type, bool has_links,
                          const std::string& named);

// Empty without CAP_SYS_ADMIN, which opening a program by its id takes.
std::string NameOf(uint32_t program_id);

}  // namespace fairlead

#endif  // FAIRLEAD_PROG_QUERY_H_
