// SPDX-License-Identifier: Apache-2.0
// What is attached to a device at tc: the tcx programs in their order, and the clsact filter at one
// priority and handle.
#include <bpf/bpf.h>
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <vector>

#include "addon.h"
#include "binding/args.h"
#include "binding/error.h"
#include "program/attach.h"
#include "system/fd.h"

namespace fairlead {
namespace {

constexpr uint32_t kMostPrograms = 64;  // BPF_MPROG_MAX

// The arguments of bpf(BPF_PROG_QUERY) with link ids, which libbpf has since 1.3.
struct ProgQuery {
  uint32_t target_ifindex;
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

// Empty without CAP_SYS_ADMIN, which opening a program by its id takes.
std::string NameOf(uint32_t program_id) {
  Fd fd(bpf_prog_get_fd_by_id(program_id));
  bpf_prog_info facts = {};
  uint32_t size = sizeof(facts);
  if (!fd.is_valid() || bpf_obj_get_info_by_fd(fd.get(), &facts, &size) != 0) return "";
  return facts.name;
}

Napi::Value TcxPrograms(const Napi::CallbackInfo& info) {
  Args args(info, "tcxPrograms");
  TcTarget target = ReadTcTarget(args);
  if (!args.ok()) return {};
  std::vector<uint32_t> programs(kMostPrograms), links(kMostPrograms);
  ProgQuery query = {};
  query.target_ifindex = target.ifindex;
  query.attach_type = target.is_egress ? kTcxEgress : kTcxIngress;
  query.prog_ids = reinterpret_cast<uint64_t>(programs.data());
  query.link_ids = reinterpret_cast<uint64_t>(links.data());
  query.count = kMostPrograms;
  if (syscall(SYS_bpf, BPF_PROG_QUERY, &query, sizeof(query)) != 0) {
    // Without tcx the kernel knows neither the attach type (EINVAL) nor all arguments (E2BIG).
    if (errno == EINVAL || errno == E2BIG) return info.Env().Undefined();
    return ThrowErrno(info.Env(), errno, "bpf_prog_query", std::to_string(target.ifindex));
  }
  Napi::Array list = Napi::Array::New(info.Env(), query.count);
  for (uint32_t i = 0; i < query.count; i++) {
    Napi::Object entry = Napi::Object::New(info.Env());
    entry.Set("programId", Napi::Number::New(info.Env(), programs[i]));
    entry.Set("linkId", Napi::Number::New(info.Env(), links[i]));
    entry.Set("name", Napi::String::New(info.Env(), NameOf(programs[i])));
    list.Set(i, entry);
  }
  return list;
}

Napi::Value TcFilter(const Napi::CallbackInfo& info) {
  Args args(info, "tcFilter");
  TcTarget target = ReadTcTarget(args);
  if (!args.ok()) return {};
  return Napi::Number::New(info.Env(), FindFilter(target));
}

Napi::Value RemoveTcFilter(const Napi::CallbackInfo& info) {
  Args args(info, "removeTcFilter");
  TcTarget target = ReadTcTarget(args);
  if (!args.ok()) return {};
  int error = DropFilter(target);
  if (error != 0 && error != ENOENT && error != ENODEV && error != EINVAL) {
    return ThrowErrno(info.Env(), error, "bpf_tc_detach", std::to_string(target.ifindex));
  }
  return info.Env().Undefined();
}

}  // namespace

void RegisterTcQuery(Napi::Env env, Addon&, Napi::Object exports) {
  exports.Set("tcxPrograms", Napi::Function::New<TcxPrograms>(env, "tcxPrograms"));
  exports.Set("tcFilter", Napi::Function::New<TcFilter>(env, "tcFilter"));
  exports.Set("removeTcFilter", Napi::Function::New<RemoveTcFilter>(env, "removeTcFilter"));
}

}  // namespace fairlead
