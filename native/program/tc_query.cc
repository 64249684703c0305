// SPDX-License-Identifier: Apache-2.0
// What is attached to a device at tc, the tcx programs in their order and the clsact filter at one
// priority and handle, and what is attached to a cgroup.
#include <errno.h>
#include <fcntl.h>

#include "addon.h"
#include "binding/args.h"
#include "binding/error.h"
#include "program/attach.h"
#include "program/prog_query.h"
#include "system/fd.h"

namespace fairlead {
namespace {

Napi::Value TcxPrograms(const Napi::CallbackInfo& info) {
  Args args(info, "tcxPrograms");
  TcTarget target = ReadTcTarget(args);
  if (!args.ok()) return {};
  uint32_t type = target.is_egress ? kTcxEgress : kTcxIngress;
  return QueryPrograms(info.Env(), target.ifindex, type, true, std::to_string(target.ifindex));
}

Napi::Value CgroupPrograms(const Napi::CallbackInfo& info) {
  Args args(info, "cgroupPrograms");
  std::string path = args.Text(args.At(0), "cgroupPath");
  uint32_t type = args.Uint32(args.At(1), "attachType");
  if (!args.ok()) return {};
  Fd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.is_valid()) return ThrowErrno(info.Env(), errno, "open", path);
  return QueryPrograms(info.Env(), static_cast<uint32_t>(fd.get()), type, false, path);
}

Napi::Value ProgramName(const Napi::CallbackInfo& info) {
  Args args(info, "programName");
  uint32_t id = args.Uint32(args.At(0), "programId");
  if (!args.ok()) return {};
  return Napi::String::New(info.Env(), NameOf(id));
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
  exports.Set("cgroupPrograms", Napi::Function::New<CgroupPrograms>(env, "cgroupPrograms"));
  exports.Set("programName", Napi::Function::New<ProgramName>(env, "programName"));
  exports.Set("tcFilter", Napi::Function::New<TcFilter>(env, "tcFilter"));
  exports.Set("removeTcFilter", Napi::Function::New<RemoveTcFilter>(env, "removeTcFilter"));
}

}  // namespace fairlead
