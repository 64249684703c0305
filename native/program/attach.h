// SPDX-License-Identifier: Apache-2.0
// Makes attachments: cgroup, tcx or clsact, XDP. Each answers a BpfLink, or nothing with the error
// thrown.
#ifndef FAIRLEAD_ATTACH_H_
#define FAIRLEAD_ATTACH_H_

#include <linux/bpf.h>
#include <napi.h>

#include <cstdint>
#include <string>

#include "binding/args.h"

namespace fairlead {

// Default priority of our clsact filters: after priority 1, which CNIs use.
constexpr uint32_t kDefaultTcPriority = 50;
constexpr uint32_t kDefaultTcHandle = 0xfa1;

// enum bpf_attach_type of 6.6; the headers of older distributions lack them.
constexpr auto kTcxIngress = static_cast<bpf_attach_type>(46);
constexpr auto kTcxEgress = static_cast<bpf_attach_type>(47);

struct TcTarget {
  uint32_t ifindex = 0;
  bool is_egress = false;
  uint32_t priority = 0;
  uint32_t handle = 0;
};

// Reads (ifindex, direction, {priority, handle}) of a call, refusing what no filter can have.
TcTarget ReadTcTarget(Args& args);

// Position among the tcx programs of a hook: relative to the one with this id; 0 means all of them.
struct TcxOrder {
  uint32_t flag = 0;  // BPF_F_BEFORE, BPF_F_AFTER or, for after all, 0
  uint32_t program_id = 0;
};
constexpr uint32_t kBefore = 1 << 3;  // BPF_F_BEFORE of 6.6
constexpr uint32_t kAfter = 1 << 4;   // BPF_F_AFTER

Napi::Value AttachCgroup(Napi::Env env, int program, const std::string& path, uint32_t type);
Napi::Value AttachTc(Napi::Env env, int program, const TcTarget& target, const TcxOrder& order);
Napi::Value AttachClsact(Napi::Env env, int program, const TcTarget& target);
Napi::Value AttachXdp(Napi::Env env, int program, uint32_t ifindex, const std::string& mode);
Napi::Value AttachTracepoint(Napi::Env env, int program, const std::string& name);

// Creates or atomically replaces the clsact filter at a target, and removes it. Both return
// a positive errno or 0.
int PutFilter(int program, const TcTarget& target);
int DropFilter(const TcTarget& target);

// The id of the program of the clsact filter at a target, 0 if there is none.
uint32_t FindFilter(const TcTarget& target);

}  // namespace fairlead

#endif  // FAIRLEAD_ATTACH_H_
