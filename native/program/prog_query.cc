// SPDX-License-Identifier: Apache-2.0
// See prog_query.h.
#include "program/prog_query.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <vector>

#include "binding/error.h"
#include "system/fd.h"

namespace fairlead {
namespace {

constexpr uint32_t kMostPrograms = 64;  // BPF_MPROG_MAX, BPF_CGROUP_MAX_PROGS

// The arguments of bpf(BPF_PROG_QUERY) with link ids, which libbpf has since 1.3.
struct ProgQuery {
  uint32_t target;
  uint32_t attach_type;
  uint32_t query_flags;
  uint32_t attach_flags;
  uint64_t prog_ids;
  uint32_t count;
  uint32_t padding;
  uint64_t prog_attach_flags;
  uint64_t link_ids;
  uint64_t link_attach_flags;
  uint64_t revision;
};

}  // namespace

std::string NameOf(uint32_t program_id) {
  Fd fd(bpf_prog_get_fd_by_id(program_id));
  bpf_prog_info facts = {};
  uint32_t size = sizeof(facts);
  if (!fd.is_valid() || bpf_obj_get_info_by_fd(fd.get(), &facts, &size) != 0) return "";
  return facts.name;
}

Napi::Value QueryPrograms(Napi::Env env, uint32_t target, uint32_t attach_type, bool has_links,
                          const std::string& named) {
  std::vector<uint32_t> programs(kMostPrograms), links(kMostPrograms);
  ProgQuery query = {};
  query.target = target;
  query.attach_type = attach_type;
  query.prog_ids = reinterpret_cast<uint64_t>(programs.data());
  if (has_links) query.link_ids = reinterpret_cast<uint64_t>(links.data());
  query.count = kMostPrograms;
  if (syscall(SYS_bpf, BPF_PROG_QUERY, &query, sizeof(query)) != 0) {
    // Such a kernel knows neither the attach type (EINVAL) nor all arguments (E2BIG).
    if (errno == EINVAL || errno == E2BIG) return env.Undefined();
    return ThrowErrno(env, errno, "bpf_prog_query", named);
  }
  Napi::Array list = Napi::Array::New(env, query.count);
  for (uint32_t i = 0; i < query.count; i++) {
    Napi::Object entry = Napi::Object::New(env);
    entry.Set("programId", Napi::Number::New(env, programs[i]));
    entry.Set("linkId", Napi::Number::New(env, links[i]));
    entry.Set("name", Napi::String::New(env, NameOf(programs[i])));
    list.Set(i, entry);
  }
  return list;
}

}  // namespace fairlead
