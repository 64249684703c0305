// SPDX-License-Identifier: Apache-2.0
// xtTargets: the targets of the rules of x_tables (iptables-legacy) in a network namespace, by the
// getsockopt() calls of its tools. Layouts: linux/netfilter_ipv4/ip_tables.h and its IPv6 sibling,
// which cannot be included together.
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "addon.h"
#include "system/in_netns.h"

namespace fairlead {
namespace {

constexpr int kGetInfo = 64;
constexpr int kGetEntries = 65;
constexpr size_t kTableName = 32;

// What differs between the families: sizes of ipt_entry and ip6t_entry, and where they have the
// offsets of their target and of the next entry.
struct Family {
  int domain;
  int level;
  const char* names;
  size_t entry_size;
  size_t target_at;
};
constexpr Family kFamilies[] = {
    {AF_INET, IPPROTO_IP, "/proc/thread-self/net/ip_tables_names", 112, 88},
    {AF_INET6, IPPROTO_IPV6, "/proc/thread-self/net/ip6_tables_names", 168, 140},
};

struct Info {
  char name[kTableName];
  uint32_t valid_hooks;
  uint32_t hook_entry[5];
  uint32_t underflow[5];
  uint32_t num_entries;
  uint32_t size;
};

struct Entries {
  char name[kTableName];
  uint32_t size;
  uint32_t padding;  // rules begin aligned to eight
};

struct Target {
  std::string table;
  std::vector<uint8_t> bytes;
};

// Asking for a table that the namespace does not have would make it.
std::string TableNames(const char* path) {
  Fd file(open(path, O_RDONLY | O_CLOEXEC));
  if (!file.is_valid()) return {};
  char text[512];
  ssize_t size = read(file.get(), text, sizeof(text));
  return {text, size > 0 ? static_cast<size_t>(size) : 0};
}

uint16_t ReadU16(const uint8_t* at) {
  uint16_t value;
  memcpy(&value, at, sizeof(value));
  return value;
}

void AddTargets(const Family& family, const std::string& table, const uint8_t* rules, size_t size,
                std::vector<Target>* found) {
  for (size_t at = 0; at + family.entry_size <= size;) {
    size_t target = ReadU16(rules + at + family.target_at);
    size_t next = ReadU16(rules + at + family.target_at + 2);
    if (next < family.entry_size || target > next || at + next > size) return;
    found->push_back({table, {rules + at + target, rules + at + next}});
    at += next;
  }
}

// False: errno says why. The table may change between the calls: EAGAIN.
bool ReadTable(const Fd& fd, const Family& family, const std::string& table,
               std::vector<Target>* found) {
  Info info = {};
  socklen_t length = sizeof(info);
  strncpy(info.name, table.c_str(), kTableName - 1);
  if (getsockopt(fd.get(), family.level, kGetInfo, &info, &length) != 0) return false;
  std::vector<uint8_t> buffer(sizeof(Entries) + info.size);
  Entries head = {};
  strncpy(head.name, table.c_str(), kTableName - 1);
  head.size = info.size;
  memcpy(buffer.data(), &head, sizeof(head));
  length = static_cast<socklen_t>(buffer.size());
  if (getsockopt(fd.get(), family.level, kGetEntries, buffer.data(), &length) != 0) return false;
  AddTargets(family, table, buffer.data() + sizeof(Entries), info.size, found);
  return true;
}

void TargetsHere(std::vector<Target>* found, Failure* failure) {
  for (const Family& family : kFamilies) {
    std::string names = TableNames(family.names);
    for (const char* table : {"nat", "mangle"}) {
      if (names.find(table) == std::string::npos) continue;
      Fd fd(socket(family.domain, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW));
      if (fd.is_valid() && ReadTable(fd, family, table, found)) continue;
      failure->error = errno;
      failure->op = fd.is_valid() ? "getsockopt" : "socket";
      return;
    }
  }
}

Napi::Value XtTargets(const Napi::CallbackInfo& info) {
  Args args(info, "xtTargets");
  Fd netns = ReadNetns(args, 0);
  if (!args.ok()) return {};
  Failure failure;
  std::vector<Target> found;
  if (!RunInNetns(netns, [&] { TargetsHere(&found, &failure); }, &failure) || failure.error != 0) {
    return Throw(info.Env(), failure);
  }
  Napi::Array targets = Napi::Array::New(info.Env(), found.size());
  for (uint32_t i = 0; i < found.size(); i++) {
    Napi::Object one = Napi::Object::New(info.Env());
    one.Set("table", found[i].table);
    one.Set("target", CopyBytes(info.Env(), found[i].bytes.data(), found[i].bytes.size()));
    targets.Set(i, one);
  }
  return targets;
}

}  // namespace

void RegisterXtTargets(Napi::Env env, Addon&, Napi::Object exports) {
  exports.Set("xtTargets", Napi::Function::New<XtTargets>(env, "xtTargets"));
}

}  // namespace fairlead
