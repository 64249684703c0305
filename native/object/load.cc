// SPDX-License-Identifier: Apache-2.0
// See load.h. Every program gets a log buffer of its own: libbpf loads without a log first and asks
// again with one after a refusal, so the buffers stay untouched (and cost no memory) when all is
// well.
#include "object/load.h"

#include <errno.h>
#include <stdlib.h>

#include <memory>
#include <sstream>
#include <vector>

namespace fairlead {
namespace {

// The largest log that every kernel since 5.2 accepts; newer ones keep the end of a longer log.
constexpr size_t kLogBytes = (1 << 24) - 1;
constexpr size_t kUsefulLines = 8;

struct Freer {
  void operator()(char* memory) const { free(memory); }
};
using LogBuffer = std::unique_ptr<char, Freer>;

std::vector<LogBuffer> AttachLogs(bpf_object* object) {
  std::vector<LogBuffer> logs;
  bpf_program* program = nullptr;
  bpf_object__for_each_program(program, object) {
    logs.emplace_back(static_cast<char*>(calloc(kLogBytes, 1)));
    if (logs.back()) bpf_program__set_log_buf(program, logs.back().get(), kLogBytes);
  }
  return logs;
}

void DetachLogs(bpf_object* object) {
  bpf_program* program = nullptr;
  bpf_object__for_each_program(program, object) {
    bpf_program__set_log_buf(program, nullptr, 0);
  }
}

bool IsStatistics(const std::string& line) {
  return line.empty() || line.starts_with("processed ") || line.starts_with("verification time") ||
         line.starts_with("stack depth");
}

void Explain(bpf_object* object, const std::vector<LogBuffer>& logs, Failure* failure) {
  failure->detail = LibbpfMessages();
  size_t index = 0;
  bpf_program* program = nullptr;
  bpf_object__for_each_program(program, object) {
    const char* log = logs[index++].get();
    if (log == nullptr || log[0] == '\0') continue;
    failure->code = "VERIFIER";
    failure->log = log;
    failure->detail = std::string("program ") + bpf_program__name(program) + " was refused (" +
                      ErrnoName(failure->error) + "):\n" + UsefulLines(failure->log);
  }
}

}  // namespace

std::string UsefulLines(const std::string& log) {
  std::vector<std::string> lines;
  std::istringstream stream(log);
  for (std::string line; std::getline(stream, line);) {
    if (!IsStatistics(line)) lines.push_back(line);
  }
  size_t first = lines.size() > kUsefulLines ? lines.size() - kUsefulLines : 0;
  std::string useful;
  for (size_t i = first; i < lines.size(); i++) useful += (i == first ? "" : "\n") + lines[i];
  return useful;
}

bool LoadObject(bpf_object* object, Failure* failure) {
  ForgetLibbpfMessages();
  std::vector<LogBuffer> logs = AttachLogs(object);
  int status = bpf_object__load(object);
  if (status != 0) {
    failure->error = -status;
    failure->op = "bpf_object__load";
    Explain(object, logs, failure);
  }
  DetachLogs(object);
  return status == 0;
}

}  // namespace fairlead
