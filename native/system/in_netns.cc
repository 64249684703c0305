// SPDX-License-Identifier: Apache-2.0
// See in_netns.h.
#include "system/in_netns.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>

namespace fairlead {
namespace {

struct Visit {
  int netns;
  const std::function<void()>& work;
  int error = 0;
};

void* Enter(void* argument) {
  auto* visit = static_cast<Visit*>(argument);
  if (setns(visit->netns, CLONE_NEWNET) != 0) {
    visit->error = errno;
    return nullptr;
  }
  visit->work();
  return nullptr;
}

}  // namespace

Fd ReadNetns(Args& args, size_t index) {
  Napi::Value value = args.Option(index, "netns");
  if (!args.ok() || value.IsUndefined()) return {};
  uint32_t fd = args.Uint32(value, "netns");
  if (!args.ok()) return {};
  Fd own = fd > INT32_MAX ? Fd() : Fd::Duplicate(static_cast<int>(fd));
  if (!own.is_valid()) args.Refuse("netns must be an open file descriptor");
  return own;
}

bool RunInNetns(const Fd& netns, const std::function<void()>& work, Failure* failure) {
  if (!netns.is_valid()) {
    work();
    return true;
  }
  Visit visit = {netns.get(), work};
  pthread_t thread;
  int error = pthread_create(&thread, nullptr, Enter, &visit);
  if (error != 0) {
    failure->error = error;
    failure->op = "pthread_create";
    return false;
  }
  pthread_join(thread, nullptr);
  if (visit.error == 0) return true;
  failure->error = visit.error;
  failure->op = "setns";
  return false;
}

}  // namespace fairlead
