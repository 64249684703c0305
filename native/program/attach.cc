// SPDX-License-Identifier: Apache-2.0
// See attach.h.
#include "program/attach.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/if_link.h>
#include <linux/magic.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#include "binding/error.h"
#include "program/link.h"
#include "system/fd.h"

namespace fairlead {
namespace {

constexpr uint32_t kById = 1 << 5;  // BPF_F_ID

// The arguments of bpf(BPF_LINK_CREATE) for tcx: libbpf supports it since 1.3, Debian 12 has 1.1.
struct TcxLinkCreate {
  uint32_t prog_fd;
  uint32_t target_ifindex;
  uint32_t attach_type;
  uint32_t flags;
  uint32_t relative_id;
  uint32_t padding;
  uint64_t expected_revision;
};

int CreateTcxLink(int program, const TcTarget& target, const TcxOrder& order) {
  TcxLinkCreate options = {};
  options.prog_fd = static_cast<uint32_t>(program);
  options.target_ifindex = target.ifindex;
  options.attach_type = target.is_egress ? kTcxEgress : kTcxIngress;
  options.flags = order.flag | (order.program_id == 0 ? 0 : kById);
  options.relative_id = order.program_id;
  return static_cast<int>(syscall(SYS_bpf, BPF_LINK_CREATE, &options, sizeof(options)));
}

bpf_tc_hook HookOf(const TcTarget& target) {
  LIBBPF_OPTS(bpf_tc_hook, hook);
  hook.ifindex = static_cast<int>(target.ifindex);
  hook.attach_point = target.is_egress ? BPF_TC_EGRESS : BPF_TC_INGRESS;
  return hook;
}

// Without tcx the kernel returns EINVAL for a query too; with tcx a query never fails with it.
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

}  // namespace

TcTarget ReadTcTarget(Args& args) {
  Napi::Value priority = args.Option(2, "priority");
  Napi::Value handle = args.Option(2, "handle");
  TcTarget target;
  target.ifindex = args.Uint32(args.At(0), "ifindex");
  std::string direction = args.Text(args.At(1), "direction");
  target.is_egress = direction == "egress";
  if (!target.is_egress && direction != "ingress") {
    args.Refuse("direction must be 'ingress' or 'egress'");
  }
  target.priority = args.Uint32Or(priority, "priority", kDefaultTcPriority);
  target.handle = args.Uint32Or(handle, "handle", kDefaultTcHandle);
  if (target.ifindex == 0 || target.ifindex > INT32_MAX) args.Refuse("ifindex must be positive");
  if (target.priority == 0 || target.priority > UINT16_MAX) {
    args.Refuse("priority must be from 1 to 65535");
  }
  if (target.handle == 0) args.Refuse("handle must not be 0");
  return target;
}

int PutFilter(int program, const TcTarget& target) {
  bpf_tc_hook hook = HookOf(target);
  LIBBPF_OPTS(bpf_tc_opts, options);
  options.prog_fd = program;
  options.flags = BPF_TC_F_REPLACE;
  options.handle = target.handle;
  options.priority = target.priority;
  return -bpf_tc_attach(&hook, &options);
}

int DropFilter(const TcTarget& target) {
  bpf_tc_hook hook = HookOf(target);
  LIBBPF_OPTS(bpf_tc_opts, options);
  options.handle = target.handle;
  options.priority = target.priority;
  return -bpf_tc_detach(&hook, &options);
}

uint32_t FindFilter(const TcTarget& target) {
  ForgetLibbpfMessages();
  bpf_tc_hook hook = HookOf(target);
  LIBBPF_OPTS(bpf_tc_opts, options);
  options.handle = target.handle;
  options.priority = target.priority;
  return bpf_tc_query(&hook, &options) == 0 ? options.prog_id : 0;
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

Napi::Value AttachClsact(Napi::Env env, int program, const TcTarget& target) {
  ForgetLibbpfMessages();
  bpf_tc_hook hook = HookOf(target);
  int status = bpf_tc_hook_create(&hook);
  if (status != 0 && status != -EEXIST) {
    return ThrowErrno(env, -status, "bpf_tc_hook_create", On(target.ifindex));
  }
  int error = PutFilter(program, target);
  if (error != 0) {
    return ThrowErrno(env, error, "bpf_tc_attach", On(target.ifindex) + ": " + LibbpfMessages());
  }
  LinkState state;
  state.kind = LinkKind::kClsact;
  state.target = target;
  state.ifindex = target.ifindex;
  return BpfLink::Create(env, std::move(state));
}

Napi::Value AttachTc(Napi::Env env, int program, const TcTarget& target, const TcxOrder& order) {
  Fd fd(CreateTcxLink(program, target, order));
  int error = errno;
  if (!fd.is_valid() && error == EINVAL && !HasTcx(target.ifindex)) {
    return AttachClsact(env, program, target);
  }
  errno = error;
  return LinkOrError(env, std::move(fd), On(target.ifindex));
}

Napi::Value AttachXdp(Napi::Env env, int program, uint32_t ifindex, const std::string& mode) {
  LIBBPF_OPTS(bpf_link_create_opts, options);
  if (mode == "native") options.flags = XDP_FLAGS_DRV_MODE;
  if (mode == "generic") options.flags = XDP_FLAGS_SKB_MODE;
  Fd fd(bpf_link_create(program, static_cast<int>(ifindex), BPF_XDP, &options));
  return LinkOrError(env, std::move(fd), On(ifindex));
}

Napi::Value AttachTracepoint(Napi::Env env, int program, const std::string& name) {
  Fd fd(bpf_raw_tracepoint_open(name.c_str(), program));
  if (!fd.is_valid()) return ThrowErrno(env, errno, "bpf_raw_tracepoint_open", name);
  return MakeLink(env, std::move(fd), name);
}

}  // namespace fairlead
