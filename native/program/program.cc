// SPDX-License-Identifier: Apache-2.0
// BpfProgram: facts, test runs, pins, and the arguments of its attachments (made in attach.cc).
#include "program/program.h"

#include <bpf/bpf.h>
#include <errno.h>

#include <vector>

#include "program/attach.h"
#include "system/in_netns.h"
#include "system/pin.h"

namespace fairlead {
namespace {

// A program may grow a packet by this much; enough for any common encapsulation.
constexpr uint32_t kOutputSlack = 256;
constexpr uint32_t kLargestOutput = 1 << 20;

std::string TagText(const uint8_t* tag) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (int i = 0; i < BPF_TAG_SIZE; i++) {
    text += kDigits[tag[i] >> 4];
    text += kDigits[tag[i] & 15];
  }
  return text;
}

// Only packet programs return their context; for others the kernel rejects a buffer for it.
bool ReturnsContext(uint32_t type) {
  return type == BPF_PROG_TYPE_SCHED_CLS || type == BPF_PROG_TYPE_SCHED_ACT ||
         type == BPF_PROG_TYPE_XDP || type == BPF_PROG_TYPE_CGROUP_SKB;
}

}  // namespace

bool ReadProgramState(Fd fd, const std::string& name, ProgramState* state) {
  uint32_t size = sizeof(state->info);
  if (!fd.is_valid() || bpf_obj_get_info_by_fd(fd.get(), &state->info, &size) != 0) return false;
  state->fd = std::move(fd);
  state->name = name.empty() ? state->info.name : name;
  return true;
}

Napi::Value BpfProgram::Name(const Napi::CallbackInfo& info) {
  return Napi::String::New(info.Env(), state_.name);
}

Napi::Value BpfProgram::Info(const Napi::CallbackInfo& info) {
  Napi::Object facts = Napi::Object::New(info.Env());
  facts.Set("id", Napi::Number::New(info.Env(), state_.info.id));
  facts.Set("tag", Napi::String::New(info.Env(), TagText(state_.info.tag)));
  facts.Set("verifiedInsns", Napi::Number::New(info.Env(), state_.info.verified_insns));
  return facts;
}

TcxOrder BpfProgram::ReadTcxOrder(Args& args) {
  Napi::Value before = args.Option(2, "before");
  Napi::Value after = args.Option(2, "after");
  TcxOrder order;
  if (!before.IsUndefined()) order = {kBefore, args.Uint32(before, "before")};
  if (!after.IsUndefined()) order = {kAfter, args.Uint32(after, "after")};
  if (!before.IsUndefined() && !after.IsUndefined()) args.Refuse("before or after, not both");
  return order;
}

TestRunInput BpfProgram::ReadTestRun(Args& args) {
  if (!args.At(0).IsObject()) args.Refuse("options must be an object");
  // Read all options before any bytes: a getter could detach the memory.
  Napi::Value data = args.Option(0, "dataIn");
  Napi::Value context = args.Option(0, "contextIn");
  Napi::Value out_size = args.Option(0, "dataOutSize");
  Napi::Value repeat = args.Option(0, "repeat");
  Napi::Value flags = args.Option(0, "flags");
  TestRunInput input;
  input.netns = ReadNetns(args, 0);
  if (!data.IsUndefined()) input.data = args.AnyBytes(data, "dataIn");
  if (!context.IsUndefined()) input.context = args.AnyBytes(context, "contextIn");
  uint32_t enough = input.data.empty() ? 0 : input.data.size() + kOutputSlack;
  input.out_size = args.Uint32Or(out_size, "dataOutSize", enough);
  input.repeat = args.Uint32Or(repeat, "repeat", 0);
  input.flags = args.Uint32Or(flags, "flags", 0);
  if (input.out_size > kLargestOutput) args.Refuse("dataOutSize must be at most 1 MiB");
  if (input.repeat > INT32_MAX) args.Refuse("repeat must be at most 2147483647");
  return input;
}

Napi::Value BpfProgram::TestRun(const Napi::CallbackInfo& info) {
  Args args(info, "program.testRun", &is_open_);
  TestRunInput input = ReadTestRun(args);
  if (!args.ok()) return {};
  std::vector<uint8_t> data_out(input.out_size);
  std::vector<uint8_t> context_out(ReturnsContext(state_.info.type) ? input.context.size() : 0);
  // The kernel rejects pointers to empty buffers.
  auto pointer = [](auto& bytes) { return bytes.empty() ? nullptr : bytes.data(); };
  LIBBPF_OPTS(bpf_test_run_opts, options);
  options.data_in = pointer(input.data);
  options.data_size_in = input.data.size();
  options.data_out = pointer(data_out);
  options.data_size_out = data_out.size();
  options.ctx_in = pointer(input.context);
  options.ctx_size_in = input.context.size();
  options.ctx_out = pointer(context_out);
  options.ctx_size_out = context_out.size();
  options.repeat = input.repeat;
  options.flags = input.flags;
  int error = 0;
  auto run = [&] { error = bpf_prog_test_run_opts(state_.fd.get(), &options) == 0 ? 0 : errno; };
  Failure failure;
  if (!RunInNetns(input.netns, run, &failure)) {
    return ThrowErrno(info.Env(), failure.error, failure.op.c_str(), "program " + state_.name);
  }
  if (error != 0) {
    return ThrowErrno(info.Env(), error, "bpf_prog_test_run_opts", "program " + state_.name);
  }
  Napi::Object result = Napi::Object::New(info.Env());
  auto set_bytes = [&](const char* name, const std::vector<uint8_t>& bytes, size_t size) {
    result.Set(name, CopyBytes(info.Env(), bytes.data(), std::min(size, bytes.size())));
  };
  result.Set("retval", Napi::Number::New(info.Env(), options.retval));
  result.Set("durationNs", Napi::Number::New(info.Env(), options.duration));
  set_bytes("dataOut", data_out, options.data_size_out);
  set_bytes("contextOut", context_out, options.ctx_size_out);
  return result;
}

Napi::Value BpfProgram::AttachCgroup(const Napi::CallbackInfo& info) {
  Args args(info, "program.attachCgroup", &is_open_);
  std::string path = args.Text(args.At(0), "cgroupPath");
  uint32_t type = args.Uint32Or(args.At(1), "attachType", state_.attach_type);
  if (type == kUnknownAttachType) args.Refuse("attachType: this program does not say which");
  if (!args.ok()) return {};
  return fairlead::AttachCgroup(info.Env(), state_.fd.get(), path, type);
}

Napi::Value BpfProgram::AttachTc(const Napi::CallbackInfo& info) {
  Args args(info, "program.attachTc", &is_open_);
  Napi::Value force = args.Option(2, "forceClsact");
  TcxOrder order = ReadTcxOrder(args);
  TcTarget target = ReadTcTarget(args);
  bool is_clsact = args.BooleanOr(force, "forceClsact", false);
  if (!args.ok()) return {};
  int fd = state_.fd.get();
  return is_clsact ? AttachClsact(info.Env(), fd, target)
                   : fairlead::AttachTc(info.Env(), fd, target, order);
}

Napi::Value BpfProgram::AttachXdp(const Napi::CallbackInfo& info) {
  Args args(info, "program.attachXdp", &is_open_);
  Napi::Value mode_value = args.Option(1, "mode");
  uint32_t ifindex = args.Uint32(args.At(0), "ifindex");
  std::string mode = mode_value.IsUndefined() ? "" : args.Text(mode_value, "mode");
  if (!mode.empty() && mode != "native" && mode != "generic") {
    args.Refuse("mode must be 'native' or 'generic'");
  }
  if (ifindex == 0 || ifindex > INT32_MAX) args.Refuse("ifindex must be positive");
  if (!args.ok()) return {};
  return fairlead::AttachXdp(info.Env(), state_.fd.get(), ifindex, mode);
}

Napi::Value BpfProgram::AttachTracepoint(const Napi::CallbackInfo& info) {
  Args args(info, "program.attachTracepoint", &is_open_);
  std::string name = args.Text(args.At(0), "name");
  if (!args.ok()) return {};
  return fairlead::AttachTracepoint(info.Env(), state_.fd.get(), name);
}

Napi::Value BpfProgram::Pin(const Napi::CallbackInfo& info) {
  Args args(info, "program.pin", &is_open_);
  std::string path = args.Text(args.At(0), "path");
  if (!args.ok()) return {};
  return PinObject(info.Env(), state_.fd.get(), path);
}

Napi::Value BpfProgram::Close(const Napi::CallbackInfo& info) {
  is_open_ = false;
  state_.fd.Reset();
  return info.Env().Undefined();
}

Napi::Function BpfProgram::Define(Napi::Env env) {
  return DefineClass(
      env, kName,
      {InstanceAccessor<&BpfProgram::Name>("name"), InstanceAccessor<&BpfProgram::Info>("info"),
       InstanceMethod<&BpfProgram::TestRun>("testRun"),
       InstanceMethod<&BpfProgram::AttachCgroup>("attachCgroup"),
       InstanceMethod<&BpfProgram::AttachTc>("attachTc"),
       InstanceMethod<&BpfProgram::AttachXdp>("attachXdp"),
       InstanceMethod<&BpfProgram::AttachTracepoint>("attachTracepoint"),
       InstanceMethod<&BpfProgram::Pin>("pin"), InstanceMethod<&BpfProgram::Close>("close")});
}

static Napi::Value OpenPinnedProgram(const Napi::CallbackInfo& info) {
  Args args(info, "openPinnedProgram");
  std::string path = args.Text(args.At(0), "path");
  if (!args.ok()) return {};
  Fd fd = OpenPin(info.Env(), path, PinKind::kProgram);
  if (!fd.is_valid()) return {};
  ProgramState state;
  if (!ReadProgramState(std::move(fd), "", &state)) {
    return ThrowErrno(info.Env(), errno, "bpf_obj_get_info_by_fd", path);
  }
  return BpfProgram::Create(info.Env(), std::move(state));
}

void RegisterProgram(Napi::Env env, Addon& addon, Napi::Object exports) {
  addon.program = Napi::Persistent(BpfProgram::Define(env));
  exports.Set("openPinnedProgram",
              Napi::Function::New<OpenPinnedProgram>(env, "openPinnedProgram"));
}

}  // namespace fairlead
