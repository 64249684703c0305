// SPDX-License-Identifier: Apache-2.0
// System calls that Node lacks, and facts about this machine.
#include <bpf/libbpf.h>
#include <errno.h>
#include <link.h>
#include <malloc.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <climits>
#include <cstring>

#include "addon.h"
#include "binding/args.h"
#include "binding/error.h"
#include "system/fd.h"

namespace fairlead {
namespace {

Napi::Value PossibleCpus(const Napi::CallbackInfo& info) {
  int count = libbpf_num_possible_cpus();
  if (count < 0) return ThrowErrno(info.Env(), -count, "libbpf_num_possible_cpus");
  return Napi::Number::New(info.Env(), count);
}

Napi::Value MountBpffs(const Napi::CallbackInfo& info) {
  Args args(info, "mountBpffs");
  std::string path = args.Text(args.At(0), "path");
  if (!args.ok()) return {};
  unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC;
  if (mount("bpf", path.c_str(), "bpf", flags, "mode=0700") != 0) {
    return ThrowErrno(info.Env(), errno, "mount", path);
  }
  return info.Env().Undefined();
}

Napi::Value Unmount(const Napi::CallbackInfo& info) {
  Args args(info, "unmount");
  std::string path = args.Text(args.At(0), "path");
  if (!args.ok()) return {};
  if (umount2(path.c_str(), UMOUNT_NOFOLLOW) != 0) {
    return ThrowErrno(info.Env(), errno, "umount2", path);
  }
  return info.Env().Undefined();
}

Napi::Value UnshareNetwork(const Napi::CallbackInfo& info) {
  if (unshare(CLONE_NEWNET) != 0) return ThrowErrno(info.Env(), errno, "unshare", "CLONE_NEWNET");
  return info.Env().Undefined();
}

// Mounts that are shared with the namespace it leaves would show there.
Napi::Value UnshareMounts(const Napi::CallbackInfo& info) {
  if (unshare(CLONE_NEWNS) != 0) return ThrowErrno(info.Env(), errno, "unshare", "CLONE_NEWNS");
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    return ThrowErrno(info.Env(), errno, "mount", "MS_PRIVATE");
  }
  return info.Env().Undefined();
}

Napi::Value FileSystemType(const Napi::CallbackInfo& info) {
  Args args(info, "fileSystemType");
  std::string path = args.Text(args.At(0), "path");
  if (!args.ok()) return {};
  struct statfs facts = {};
  if (statfs(path.c_str(), &facts) != 0) return ThrowErrno(info.Env(), errno, "statfs", path);
  return Napi::Number::New(info.Env(), static_cast<uint32_t>(facts.f_type));
}

// Node has no flock(2), the only lock that works on a folder of any file system, bpffs included,
// and is released by the kernel when the last copy of the descriptor is closed.
Napi::Value LockExclusively(const Napi::CallbackInfo& info) {
  Args args(info, "lockExclusively");
  uint32_t fd = args.Uint32(args.At(0), "fd");
  if (!args.ok()) return {};
  if (flock(static_cast<int>(fd), LOCK_EX | LOCK_NB) == 0) {
    return Napi::Boolean::New(info.Env(), true);
  }
  if (errno == EWOULDBLOCK) return Napi::Boolean::New(info.Env(), false);
  return ThrowErrno(info.Env(), errno, "flock");
}

// The credentials are those of its listen(2), whether or not it accepts. A full queue says nothing
// (EAGAIN).
Napi::Value AbstractListener(const Napi::CallbackInfo& info) {
  Args args(info, "abstractListener");
  std::string name = args.Text(args.At(0), "name");
  struct sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (args.ok() && name.size() >= sizeof(address.sun_path)) args.Refuse("name is too long");
  if (!args.ok()) return {};
  memcpy(address.sun_path + 1, name.data(), name.size());
  Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.is_valid()) return ThrowErrno(info.Env(), errno, "socket");
  if (connect(fd.get(), reinterpret_cast<struct sockaddr*>(&address), sizeof(address)) != 0) {
    if (errno == ECONNREFUSED || errno == EAGAIN) return info.Env().Undefined();
    return ThrowErrno(info.Env(), errno, "connect", name);
  }
  struct ucred peer = {};
  socklen_t size = sizeof(peer);
  if (getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return ThrowErrno(info.Env(), errno, "getsockopt", "SO_PEERCRED");
  }
  Napi::Object found = Napi::Object::New(info.Env());
  found.Set("pid", Napi::Number::New(info.Env(), peer.pid));
  found.Set("uid", Napi::Number::New(info.Env(), peer.uid));
  return found;
}

// mallopt(3) takes an int. Another malloc in its place, as a sanitizer's, refuses every option.
Napi::Value SetTrimThreshold(const Napi::CallbackInfo& info) {
  Args args(info, "setTrimThreshold");
  uint32_t bytes = args.Uint32(args.At(0), "bytes");
  if (args.ok() && bytes > INT_MAX) args.Refuse("bytes is beyond 2147483647");
  if (!args.ok()) return {};
  bool is_set = mallopt(M_TRIM_THRESHOLD, static_cast<int>(bytes)) == 1 &&
                mallopt(M_MMAP_THRESHOLD, static_cast<int>(bytes)) == 1;
  return Napi::Boolean::New(info.Env(), is_set);
}

// Pages of the program's own read-only segments. They are those of its file: nothing is lost, and
// what is used is mapped again.
int ReleaseSegments(struct dl_phdr_info* program, size_t, void*) {
  uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  for (int i = 0; i < program->dlpi_phnum; i++) {
    const ElfW(Phdr)& segment = program->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W) != 0) continue;
    uintptr_t begin = (program->dlpi_addr + segment.p_vaddr + page - 1) & ~(page - 1);
    uintptr_t end = (program->dlpi_addr + segment.p_vaddr + segment.p_memsz) & ~(page - 1);
    if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  }
  return 1;  // The first one is the program, the others are libraries.
}

Napi::Value ReleaseProgram(const Napi::CallbackInfo& info) {
  dl_iterate_phdr(ReleaseSegments, nullptr);
  return info.Env().Undefined();
}

Napi::Value LibbpfVersion(const Napi::CallbackInfo& info) {
  return Napi::String::New(info.Env(), std::to_string(libbpf_major_version()) + "." +
                                           std::to_string(libbpf_minor_version()));
}

}  // namespace

void RegisterSystem(Napi::Env env, Addon&, Napi::Object exports) {
  exports.Set("possibleCpus", Napi::Function::New<PossibleCpus>(env, "possibleCpus"));
  exports.Set("mountBpffs", Napi::Function::New<MountBpffs>(env, "mountBpffs"));
  exports.Set("unmount", Napi::Function::New<Unmount>(env, "unmount"));
  exports.Set("unshareNetwork", Napi::Function::New<UnshareNetwork>(env, "unshareNetwork"));
  exports.Set("unshareMounts", Napi::Function::New<UnshareMounts>(env, "unshareMounts"));
  exports.Set("fileSystemType", Napi::Function::New<FileSystemType>(env, "fileSystemType"));
  exports.Set("lockExclusively", Napi::Function::New<LockExclusively>(env, "lockExclusively"));
  exports.Set("abstractListener", Napi::Function::New<AbstractListener>(env, "abstractListener"));
  exports.Set("setTrimThreshold", Napi::Function::New<SetTrimThreshold>(env, "setTrimThreshold"));
  exports.Set("releaseProgram", Napi::Function::New<ReleaseProgram>(env, "releaseProgram"));
  exports.Set("libbpfVersion", Napi::Function::New<LibbpfVersion>(env, "libbpfVersion"));
}

}  // namespace fairlead
