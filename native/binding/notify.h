// SPDX-License-Identifier: Apache-2.0
// How a thread of the addon brings the event loop to it: the threadsafe function, and the call of a
// JavaScript callback from there. T is what the function's turns are for: T::Deliver(env,
// callback).
#ifndef FAIRLEAD_NOTIFY_H_
#define FAIRLEAD_NOTIFY_H_

#include <napi.h>

#include <memory>
#include <utility>

namespace fairlead {

// An exception in the callback goes to 'uncaughtException', and the thread's work continues.
inline void CallFromLoop(Napi::Env env, Napi::Function callback, size_t count,
                         const napi_value* arguments) {
  napi_value receiver = nullptr;
  napi_value thrown = nullptr;
  napi_get_undefined(env, &receiver);
  if (napi_call_function(env, receiver, callback, count, arguments, nullptr) ==
          napi_pending_exception &&
      napi_get_and_clear_last_exception(env, &thrown) == napi_ok) {
    napi_fatal_exception(env, thrown);
  }
}

// Null if the environment is ending. It holds the target until it is finalized.
template <typename T>
napi_threadsafe_function MakeNotify(Napi::Env env, const char* name, std::shared_ptr<T> target,
                                    Napi::Function callback) {
  auto* held = new std::shared_ptr<T>(std::move(target));
  auto drop = [](napi_env, void*, void* context) {
    delete static_cast<std::shared_ptr<T>*>(context);
  };
  auto deliver = [](napi_env on_loop, napi_value on_notify, void* context, void*) {
    if (on_loop == nullptr) return;  // the environment is going away
    // A copy: the callback may close the handle.
    std::shared_ptr<T> target = *static_cast<std::shared_ptr<T>*>(context);
    target->Deliver(on_loop, Napi::Function(on_loop, on_notify));
  };
  napi_threadsafe_function notify = nullptr;
  if (napi_create_threadsafe_function(env, callback, nullptr, Napi::String::New(env, name), 0, 1,
                                      held, drop, held, deliver, &notify) != napi_ok) {
    delete held;
    return nullptr;
  }
  return notify;
}

}  // namespace fairlead

#endif  // FAIRLEAD_NOTIFY_H_
