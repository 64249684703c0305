// SPDX-License-Identifier: Apache-2.0
// See load_async.h.
#include "object/load_async.h"

#include "object/load.h"

namespace fairlead {
namespace {

// Holds the libbpf object and the handle: neither close() nor a collection takes them away under
// it.
class ObjectLoad : public Napi::AsyncWorker {
 public:
  explicit ObjectLoad(BpfObject& handle)
      : Napi::AsyncWorker(handle.Env(), "fairlead:loadAsync"),
        deferred_(Napi::Promise::Deferred::New(handle.Env())),
        object_(handle.state().object),
        handle_(handle),
        keep_(Napi::Persistent(handle.Value())) {}

  Napi::Promise Promise() const { return deferred_.Promise(); }

  void Execute() override { is_loaded_ = LoadObject(object_.get(), &failure_); }

  void OnOK() override {
    handle_.EndLoading(is_loaded_);
    if (is_loaded_) return deferred_.Resolve(Env().Undefined());
    deferred_.Reject(MakeError(Env(), failure_));
  }

 private:
  Napi::Promise::Deferred deferred_;
  std::shared_ptr<bpf_object> object_;
  BpfObject& handle_;
  Napi::ObjectReference keep_;
  Failure failure_;
  bool is_loaded_ = false;
};

}  // namespace

Napi::Promise QueueLoad(BpfObject& object) {
  auto* load = new ObjectLoad(object);
  Napi::Promise promise = load->Promise();
  load->Queue();
  return promise;
}

}  // namespace fairlead
