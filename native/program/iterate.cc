// SPDX-License-Identifier: Apache-2.0
// readIterator: runs an iterator program over what it iterates and returns what it wrote. The
// program runs during read(2), which waits for locks of sockets: on the thread pool, not on the
// loop.
#include <bpf/bpf.h>
#include <errno.h>

#include <vector>

#include "addon.h"
#include "map/map.h"
#include "program/program.h"
#include "system/in_netns.h"

namespace fairlead {
namespace {

constexpr size_t kReadBytes = 64 << 10;
constexpr uint32_t kMostBytes = 1 << 20;

struct Iteration {
  Fd program;
  Fd map;    // invalid: the iterator is not over a map
  Fd netns;  // invalid: the caller's
  size_t most_bytes = 0;
};

class IteratorRead : public Napi::AsyncWorker {
 public:
  IteratorRead(Napi::Env env, Iteration iteration)
      : Napi::AsyncWorker(env, "fairlead:readIterator"),
        deferred_(Napi::Promise::Deferred::New(env)),
        iteration_(std::move(iteration)) {}

  Napi::Promise Promise() const { return deferred_.Promise(); }

  void Execute() override {
    RunInNetns(iteration_.netns, [this] { is_read_ = Read(); }, &failure_);
  }

  void OnOK() override {
    if (!is_read_) return deferred_.Reject(MakeError(Env(), failure_));
    Napi::Object result = Napi::Object::New(Env());
    result.Set("bytes", CopyBytes(Env(), bytes_.data(), bytes_.size()));
    result.Set("isWhole", Napi::Boolean::New(Env(), is_whole_));
    deferred_.Resolve(result);
  }

 private:
  bool Fail(const char* op) {
    failure_.error = errno;
    failure_.op = op;
    return false;
  }

  // The namespace is that of the thread that creates the iterator, not of the one that reads it.
  bool Read() {
    bpf_iter_link_info over = {};
    over.map.map_fd = iteration_.map.get();
    LIBBPF_OPTS(bpf_link_create_opts, options);
    if (iteration_.map.is_valid()) {
      options.iter_info = &over;
      options.iter_info_len = sizeof(over);
    }
    Fd link(bpf_link_create(iteration_.program.get(), 0, BPF_TRACE_ITER, &options));
    if (!link.is_valid()) return Fail("bpf_link_create");
    Fd iterator(bpf_iter_create(link.get()));
    if (!iterator.is_valid()) return Fail("bpf_iter_create");
    return ReadAll(iterator);
  }

  bool ReadAll(const Fd& iterator) {
    std::vector<uint8_t> part(kReadBytes);
    while (bytes_.size() < iteration_.most_bytes) {
      ssize_t size = read(iterator.get(), part.data(), part.size());
      if (size == 0) {
        is_whole_ = true;
        return true;
      }
      // EAGAIN: the kernel lets others run after a million steps without output.
      if (size < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (size < 0) return Fail("read");
      bytes_.insert(bytes_.end(), part.begin(), part.begin() + size);
    }
    return true;
  }

  Napi::Promise::Deferred deferred_;
  Iteration iteration_;
  std::vector<uint8_t> bytes_;
  Failure failure_;
  bool is_read_ = false;
  bool is_whole_ = false;
};

Napi::Value ReadIterator(const Napi::CallbackInfo& info) {
  Args args(info, "readIterator");
  Napi::Value map_value = args.Option(1, "map");
  Napi::Value bytes_value = args.Option(1, "maxBytes");
  Iteration iteration;
  iteration.netns = ReadNetns(args, 1);
  iteration.most_bytes = args.Uint32Or(bytes_value, "maxBytes", kMostBytes);
  BpfProgram* program = BpfProgram::Argument(args, args.At(0), "program");
  if (program == nullptr) return {};
  if (!map_value.IsUndefined()) {
    BpfMap* map = BpfMap::Argument(args, map_value, "map");
    if (map == nullptr) return {};
    iteration.map = Fd::Duplicate(map->state().fd.get());
  }
  if (!args.ok()) return {};
  iteration.program = Fd::Duplicate(program->state().fd.get());
  auto* read = new IteratorRead(info.Env(), std::move(iteration));
  Napi::Promise promise = read->Promise();
  read->Queue();
  return promise;
}

}  // namespace

void RegisterIterate(Napi::Env env, Addon&, Napi::Object exports) {
  exports.Set("readIterator", Napi::Function::New<ReadIterator>(env, "readIterator"));
}

}  // namespace fairlead
