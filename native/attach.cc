// SPDX-License-Identifier: Apache-2.0
// See attach.h.
#include "attach.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/if_link.h>
#include <linux/magic.h>
#include <sys/vfs.h>

#include "error.h"
#include "fd.h"
#include "link.h"

namespace fairlead {
namespace {

// enum bpf_attach_type of 6.6; the headers of older distributions lack them.
constexpr auto kTcxIngress = static_cast<bpf_attach_type>(46);
constexpr auto kTcxEgress = static_cast<bpf_attach_type>(47);

bpf_tc_hook HookOf(const TcPlace& place) {
  LIBBPF_OPTS(bpf_tc_hook, hook);
  hook.ifindex = static_cast<int>(place.ifindex);
  hook.attach_point = place.is_egress ? BPF_TC_EGRESS : BPF_TC_INGRESS;
  return hook;
}

// A kernel without tcx answers EINVAL to the question too; with it, the question has no such
// answer.
bool HasTcx(uint32_t ifindex) {
  uint32_t count = 0;
  return bpf_prog_query(static_cast<int>(ifindex), kTcxIngress, 0, nullptr, nullptr, &count) == 0;
}

std::string On(uint32_t ifindex) {
  return "interface " + std::to_string(ifindex);
}

Napi::Value LinkOrError(Napi::Env env, Fd fd, const std::string& target) {
  if (!fd.is_valid()) return ThrowErrno(env, errno, "bpf_link_create", target);
  return MakeLink(env, std::move(fd), target);
}

Napi::Value AttachClsact(Napi::Env env, int program, const TcPlace& place) {
  ForgetLibbpfMessages();
  bpf_tc_hook hook = HookOf(place);
  int status = bpf_tc_hook_create(&hook);
  if (status != 0 && status != -EEXIST) {
    return ThrowErrno(env, -status, "bpf_tc_hook_create", On(place.ifindex));
  }
  int error = PutFilter(program, place);
  if (error != 0) {
    return ThrowErrno(env, error, "bpf_tc_attach", On(place.ifindex) + ": " + LibbpfMessages());
  }
  LinkState state;
  state.kind = LinkKind::kClsact;
  state.place = place;
  return BpfLink::Create(env, std::move(state));
}

}  // namespace

int PutFilter(int program, const TcPlace& place) {
  bpf_tc_hook hook = HookOf(place);
  LIBBPF_OPTS(bpf_tc_opts, options);
  options.prog_fd = program;
  options.flags = BPF_TC_F_REPLACE;
  options.handle = place.handle;
  options.priority = place.priority;
  return -bpf_tc_attach(&hook, &options);
}

int DropFilter(const TcPlace& place) {
  bpf_tc_hook hook = HookOf(place);
  LIBBPF_OPTS(bpf_tc_opts, options);
  options.handle = place.handle;
  options.priority = place.priority;
  return -bpf_tc_detach(&hook, &options);
}

Napi::Value AttachCgroup(Napi::Env env, int program, const std::string& path, uint32_t type) {
  Fd cgroup(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!cgroup.is_valid()) return ThrowErrno(env, errno, "open", path);
  struct statfs facts = {};
  if (fstatfs(cgroup.get(), &facts) != 0) return ThrowErrno(env, errno, "fstatfs", path);
  if (facts.f_type != CGROUP2_SUPER_MAGIC) {
    return ThrowCode(env, "ARGUMENT", "program.attachCgroup", path + " is not a cgroup v2 folder");
  }
  auto attach_type = static_cast<bpf_attach_type>(type);
  return LinkOrError(env, Fd(bpf_link_create(program, cgroup.get(), attach_type, nullptr)), path);
}

Napi::Value AttachTc(Napi::Env env, int program, const TcPlace& place, bool is_clsact_forced) {
  if (is_clsact_forced) return AttachClsact(env, program, place);
  auto type = place.is_egress ? kTcxEgress : kTcxIngress;
  Fd fd(bpf_link_create(program, static_cast<int>(place.ifindex), type, nullptr));
  int error = errno;
  if (!fd.is_valid() && error == EINVAL && !HasTcx(place.ifindex)) {
    return AttachClsact(env, program, place);
  }
  errno = error;
  return LinkOrError(env, std::move(fd), On(place.ifindex));
}

Napi::Value AttachXdp(Napi::Env env, int program, uint32_t ifindex, const std::string& mode) {
  LIBBPF_OPTS(bpf_link_create_opts, options);
  if (mode == "native") options.flags = XDP_FLAGS_DRV_MODE;
  if (mode == "generic") options.flags = XDP_FLAGS_SKB_MODE;
  Fd fd(bpf_link_create(program, static_cast<int>(ifindex), BPF_XDP, &options));
  return LinkOrError(env, std::move(fd), On(ifindex));
}

}  // namespace fairlead
