// SPDX-License-Identifier: Apache-2.0
// The state of one environment (the main thread or a worker): the classes of its handles and the
// private maps of waitGracePeriod. Freed with the environment; nothing is static.
#ifndef FAIRLEAD_ADDON_H_
#define FAIRLEAD_ADDON_H_

#include <napi.h>

#include <memory>

namespace fairlead {

struct GraceMaps;

struct Addon {
  Napi::FunctionReference object;
  Napi::FunctionReference map;
  Napi::FunctionReference program;
  Napi::FunctionReference link;
  Napi::FunctionReference ring;
  Napi::FunctionReference netlink;
  Napi::FunctionReference relay;
  // The state for the handle under construction; null when JavaScript calls a constructor directly.
  void* pending = nullptr;
  std::shared_ptr<GraceMaps> grace;
};

// One per file: defines the file's classes and functions on `exports`.
void RegisterObject(Napi::Env env, Addon& addon, Napi::Object exports);
void RegisterMap(Napi::Env env, Addon& addon, Napi::Object exports);
void RegisterProgram(Napi::Env env, Addon& addon, Napi::Object exports);
void RegisterLink(Napi::Env env, Addon& addon, Napi::Object exports);
void RegisterTcQuery(Napi::Env env, Addon& addon, Napi::Object exports);
void RegisterRing(Napi::Env env, Addon& addon, Napi::Object exports);
void RegisterNetlink(Napi::Env env, Addon& addon, Napi::Object exports);
void RegisterInspect(Napi::Env env, Addon& addon, Napi::Object exports);
void RegisterSystem(Napi::Env env, Addon& addon, Napi::Object exports);
void RegisterGrace(Napi::Env env, Addon& addon, Napi::Object exports);
void RegisterIterate(Napi::Env env, Addon& addon, Napi::Object exports);
void RegisterSockDestroy(Napi::Env env, Addon& addon, Napi::Object exports);
void RegisterSockConnect(Napi::Env env, Addon& addon, Napi::Object exports);
void RegisterNetns(Napi::Env env, Addon& addon, Napi::Object exports);
void RegisterXtTargets(Napi::Env env, Addon& addon, Napi::Object exports);
void RegisterDescriptors(Napi::Env env, Addon& addon, Napi::Object exports);
void RegisterRelay(Napi::Env env, Addon& addon, Napi::Object exports);

}  // namespace fairlead

#endif  // FAIRLEAD_ADDON_H_
