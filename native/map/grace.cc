// SPDX-License-Identifier: Apache-2.0
// waitGracePeriod: a write to a map of maps returns only after synchronize_rcu() (kernel 4.12:
// maybe_wait_bpf_programs), that is after every program that may have seen the old map has ended.
// Programs that may sleep are not waited for. The write waits on the thread pool, not on the loop.
#include "map/grace.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <napi.h>

#include "addon.h"
#include "binding/error.h"

namespace fairlead {
namespace {

class GraceWait : public Napi::AsyncWorker {
 public:
  GraceWait(Napi::Env env, std::shared_ptr<GraceMaps> maps)
      : Napi::AsyncWorker(env, "fairlead:waitGracePeriod"),
        deferred_(Napi::Promise::Deferred::New(env)),
        maps_(std::move(maps)) {}

  Napi::Promise Promise() const { return deferred_.Promise(); }

  void Execute() override {
    uint32_t slot = 0;
    int inner = maps_->inner.get();
    if (bpf_map_update_elem(maps_->outer.get(), &slot, &inner, BPF_ANY) != 0) error_ = errno;
  }

  void OnOK() override {
    if (error_ == 0) return deferred_.Resolve(Env().Undefined());
    deferred_.Reject(MakeError(Env(), {.error = error_,
                                       .op = "bpf_map_update_elem",
                                       .detail = "waiting for a grace period",
                                       .code = {},
                                       .log = {}}));
  }

 private:
  Napi::Promise::Deferred deferred_;
  std::shared_ptr<GraceMaps> maps_;
  int error_ = 0;
};

// Null with errno set on failure.
std::shared_ptr<GraceMaps> MakeMaps() {
  auto maps = std::make_shared<GraceMaps>();
  maps->inner =
      Fd(bpf_map_create(BPF_MAP_TYPE_ARRAY, "fl_grace_inner", sizeof(uint32_t), 4, 1, nullptr));
  if (!maps->inner.is_valid()) return nullptr;
  LIBBPF_OPTS(bpf_map_create_opts, options);
  options.inner_map_fd = maps->inner.get();
  maps->outer = Fd(bpf_map_create(BPF_MAP_TYPE_ARRAY_OF_MAPS, "fl_grace", sizeof(uint32_t),
                                  sizeof(uint32_t), 1, &options));
  return maps->outer.is_valid() ? maps : nullptr;
}

Napi::Value WaitGracePeriod(const Napi::CallbackInfo& info) {
  auto* addon = info.Env().GetInstanceData<Addon>();
  if (!addon->grace) addon->grace = MakeMaps();
  if (!addon->grace) return ThrowErrno(info.Env(), errno, "bpf_map_create", "grace period");
  auto* wait = new GraceWait(info.Env(), addon->grace);
  Napi::Promise promise = wait->Promise();
  wait->Queue();
  return promise;
}

}  // namespace

void RegisterGrace(Napi::Env env, Addon&, Napi::Object exports) {
  exports.Set("waitGracePeriod", Napi::Function::New<WaitGracePeriod>(env, "waitGracePeriod"));
}

}  // namespace fairlead
