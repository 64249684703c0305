// SPDX-License-Identifier: Apache-2.0
// BpfLink: update in place, pin, detach.
#include "program/link.h"

#include <bpf/bpf.h>
#include <errno.h>

#include "program/program.h"
#include "system/pin.h"

namespace fairlead {
namespace {

constexpr uint32_t kLinkTypeTcx = 11;  // enum bpf_link_type of 6.6

const char* KindText(LinkKind kind) {
  switch (kind) {
    case LinkKind::kCgroup:
      return "cgroup";
    case LinkKind::kTcx:
      return "tcx";
    case LinkKind::kClsact:
      return "clsact";
    case LinkKind::kXdp:
      return "xdp";
    case LinkKind::kTracepoint:
      return "tracepoint";
  }
  return "";
}

bool KindOf(uint32_t type, LinkKind* kind) {
  if (type == BPF_LINK_TYPE_CGROUP) *kind = LinkKind::kCgroup;
  if (type == BPF_LINK_TYPE_XDP) *kind = LinkKind::kXdp;
  if (type == kLinkTypeTcx) *kind = LinkKind::kTcx;
  if (type == BPF_LINK_TYPE_RAW_TRACEPOINT) *kind = LinkKind::kTracepoint;
  return type == BPF_LINK_TYPE_CGROUP || type == BPF_LINK_TYPE_XDP || type == kLinkTypeTcx ||
         type == BPF_LINK_TYPE_RAW_TRACEPOINT;
}

// The attachment is already gone: with its device or cgroup, or removed by another program.
bool IsGone(int error) {
  return error == ENOLINK || error == ENOENT || error == ENODEV;
}

}  // namespace

Napi::Value MakeLink(Napi::Env env, Fd fd, const std::string& target) {
  bpf_link_info facts = {};
  uint32_t size = sizeof(facts);
  if (bpf_obj_get_info_by_fd(fd.get(), &facts, &size) != 0) {
    return ThrowErrno(env, errno, "bpf_obj_get_info_by_fd", target);
  }
  LinkState state;
  if (!KindOf(facts.type, &state.kind)) {
    return ThrowCode(env, "ARGUMENT", "BpfLink",
                     target + " is a link of type " + std::to_string(facts.type));
  }
  state.fd = std::move(fd);
  state.id = facts.id;
  if (state.kind == LinkKind::kCgroup) {
    state.cgroup_id = facts.cgroup.cgroup_id;
  } else if (state.kind != LinkKind::kTracepoint) {
    state.ifindex = facts.xdp.ifindex;  // of tcx, which older headers lack, it has the same place
  }
  return BpfLink::Create(env, std::move(state));
}

Napi::Value BpfLink::Kind(const Napi::CallbackInfo& info) {
  return Napi::String::New(info.Env(), KindText(state_.kind));
}

Napi::Value BpfLink::Id(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), state_.id);
}

Napi::Value BpfLink::Ifindex(const Napi::CallbackInfo& info) {
  bool is_of_device = state_.kind != LinkKind::kCgroup && state_.kind != LinkKind::kTracepoint;
  if (!is_of_device) return info.Env().Undefined();
  return Napi::Number::New(info.Env(), state_.ifindex);
}

// Asked anew: update() changes it, also that of another handle.
Napi::Value BpfLink::ProgramId(const Napi::CallbackInfo& info) {
  bpf_link_info facts = {};
  uint32_t size = sizeof(facts);
  bool is_known = state_.kind != LinkKind::kClsact &&
                  bpf_obj_get_info_by_fd(state_.fd.get(), &facts, &size) == 0;
  return Napi::Number::New(info.Env(), is_known ? facts.prog_id : 0);
}

Napi::Value BpfLink::CgroupId(const Napi::CallbackInfo& info) {
  if (state_.kind != LinkKind::kCgroup) return info.Env().Undefined();
  return Napi::BigInt::New(info.Env(), state_.cgroup_id);
}

Napi::Value BpfLink::Update(const Napi::CallbackInfo& info) {
  Args args(info, "link.update", &is_open_);
  BpfProgram* program = BpfProgram::Argument(args, args.At(0), "program");
  if (program == nullptr) return {};
  int fd = program->state().fd.get();
  if (state_.kind == LinkKind::kClsact) {
    int error = PutFilter(fd, state_.target);
    if (error != 0) return ThrowErrno(info.Env(), error, "bpf_tc_attach", program->state().name);
  } else if (bpf_link_update(state_.fd.get(), fd, nullptr) != 0) {
    return ThrowErrno(info.Env(), errno, "bpf_link_update", program->state().name);
  }
  return info.Env().Undefined();
}

Napi::Value BpfLink::Pin(const Napi::CallbackInfo& info) {
  Args args(info, "link.pin", &is_open_);
  std::string path = args.Text(args.At(0), "path");
  if (!args.ok()) return {};
  if (state_.kind == LinkKind::kClsact) {
    return ThrowErrno(info.Env(), ENOTSUP, "link.pin", "a clsact filter stays by itself");
  }
  return PinObject(info.Env(), state_.fd.get(), path);
}

Napi::Value BpfLink::Detach(const Napi::CallbackInfo& info) {
  Args args(info, "link.detach", &is_open_);
  if (!args.ok()) return {};
  bool is_clsact = state_.kind == LinkKind::kClsact;
  int error = 0;
  if (is_clsact) {
    error = DropFilter(state_.target);
  } else if (bpf_link_detach(state_.fd.get()) != 0) {
    error = errno;
  }
  if (error != 0 && !IsGone(error)) {
    return ThrowErrno(info.Env(), error, is_clsact ? "bpf_tc_detach" : "bpf_link_detach");
  }
  return info.Env().Undefined();
}

Napi::Value BpfLink::Close(const Napi::CallbackInfo& info) {
  is_open_ = false;
  state_.fd.Reset();
  return info.Env().Undefined();
}

Napi::Function BpfLink::Define(Napi::Env env) {
  return DefineClass(
      env, kName,
      {InstanceAccessor<&BpfLink::Kind>("kind"), InstanceAccessor<&BpfLink::Id>("id"),
       InstanceAccessor<&BpfLink::Ifindex>("ifindex"),
       InstanceAccessor<&BpfLink::ProgramId>("programId"),
       InstanceAccessor<&BpfLink::CgroupId>("cgroupId"), InstanceMethod<&BpfLink::Update>("update"),
       InstanceMethod<&BpfLink::Pin>("pin"), InstanceMethod<&BpfLink::Detach>("detach"),
       InstanceMethod<&BpfLink::Close>("close")});
}

static Napi::Value OpenPinnedLink(const Napi::CallbackInfo& info) {
  Args args(info, "openPinnedLink");
  std::string path = args.Text(args.At(0), "path");
  if (!args.ok()) return {};
  Fd fd = OpenPin(info.Env(), path, PinKind::kLink);
  return fd.is_valid() ? MakeLink(info.Env(), std::move(fd), path) : Napi::Value();
}

void RegisterLink(Napi::Env env, Addon& addon, Napi::Object exports) {
  addon.link = Napi::Persistent(BpfLink::Define(env));
  exports.Set("openPinnedLink", Napi::Function::New<OpenPinnedLink>(env, "openPinnedLink"));
}

}  // namespace fairlead
