// SPDX-License-Identifier: Apache-2.0
// See pin.h.
#include "system/pin.h"

#include <bpf/bpf.h>
#include <errno.h>

#include <algorithm>

#include "binding/error.h"

namespace fairlead {
namespace {

// BPF_OBJ_GET_INFO_BY_FD answers for any kind of object; the name of the anonymous inode tells
// which one it is (stable since 4.4; links since 5.7).
std::string InodeName(int fd) {
  std::string path = "/proc/self/fd/" + std::to_string(fd);
  char target[64];
  ssize_t size = readlink(path.c_str(), target, sizeof(target));
  return size < 0 ? "" : std::string(target, size);
}

const char* KindName(PinKind kind) {
  if (kind == PinKind::kMap) return "bpf-map";
  return kind == PinKind::kProgram ? "bpf-prog" : "bpf-link";
}

// Links are named bpf_link when they are made and bpf-link when a pin is opened.
bool IsKind(std::string inode_name, PinKind kind) {
  std::replace(inode_name.begin(), inode_name.end(), '_', '-');
  return inode_name.find(KindName(kind)) != std::string::npos;
}

}  // namespace

Napi::Value PinObject(Napi::Env env, int fd, const std::string& path) {
  if (bpf_obj_pin(fd, path.c_str()) != 0) return ThrowErrno(env, errno, "bpf_obj_pin", path);
  return env.Undefined();
}

Fd OpenPin(Napi::Env env, const std::string& path, PinKind kind) {
  Fd fd(bpf_obj_get(path.c_str()));
  if (!fd.is_valid()) {
    ThrowErrno(env, errno, "bpf_obj_get", path);
    return {};
  }
  std::string name = InodeName(fd.get());
  if (!IsKind(name, kind)) {
    ThrowCode(env, "ARGUMENT", "bpf_obj_get",
              path + " holds " + name + ", not a " + KindName(kind));
    return {};
  }
  return fd;
}

}  // namespace fairlead
