// SPDX-License-Identifier: Apache-2.0
// The base of every JavaScript handle: made only by the addon, tagged, so that a method called on a
// foreign object throws instead of reading foreign memory, and closed exactly once (by close(), by
// the garbage collector or with the environment).
#ifndef FAIRLEAD_HANDLE_H_
#define FAIRLEAD_HANDLE_H_

#include <napi.h>

#include <utility>

#include "addon.h"
#include "binding/args.h"
#include "binding/error.h"

namespace fairlead {

// T gives: kTag, kName, and Slot(Addon&), the reference to its class.
template <typename T, typename State>
class Handle : public Napi::ObjectWrap<T> {
 public:
  explicit Handle(const Napi::CallbackInfo& info) : Napi::ObjectWrap<T>(info) {
    auto* addon = info.Env().GetInstanceData<Addon>();
    if (addon->pending == nullptr) {
      ThrowCode(info.Env(), "ARGUMENT", T::kName, "handles are made by the addon only");
      return;
    }
    state_ = std::move(*static_cast<State*>(std::exchange(addon->pending, nullptr)));
    napi_type_tag_object(info.Env(), info.This(), &T::kTag);
    is_open_ = true;
  }

  static Napi::Value Create(Napi::Env env, State state) {
    auto* addon = env.GetInstanceData<Addon>();
    addon->pending = &state;
    Napi::Value handle = T::Slot(*addon).New({});
    addon->pending = nullptr;
    return handle;
  }

  // Null, without throwing, if `value` is not one of our handles.
  static T* TryUnwrap(Napi::Env env, napi_value value) {
    bool is_ours = false;
    void* self = nullptr;
    if (napi_check_object_type_tag(env, value, &T::kTag, &is_ours) != napi_ok || !is_ours ||
        napi_unwrap(env, value, &self) != napi_ok) {
      return nullptr;
    }
    return static_cast<T*>(self);
  }

  // Called by ObjectWrap for `this` of each method.
  static T* Unwrap(Napi::Object value) {
    T* self = TryUnwrap(value.Env(), value);
    if (self == nullptr) {
      ThrowCode(value.Env(), "ARGUMENT", T::kName, "this is not a handle of this kind");
    }
    return self;
  }

  // An open handle passed as an argument, or null with the refusal thrown.
  static T* Argument(Args& args, Napi::Value value, const char* name) {
    if (!args.ok()) return nullptr;
    T* other = TryUnwrap(value.Env(), value);
    if (other == nullptr) {
      args.Refuse(std::string(name) + " must be a " + T::kName);
    } else if (!other->is_open_) {
      ThrowCode(value.Env(), "CLOSED", T::kName, std::string(name) + " is closed");
      return nullptr;
    }
    return other;
  }

  State& state() { return state_; }

 protected:
  bool is_open_ = false;
  State state_;
};

}  // namespace fairlead

#endif  // FAIRLEAD_HANDLE_H_
