// SPDX-License-Identifier: Apache-2.0
// See error.h.
#include "binding/error.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <string.h>

#include <cstdarg>
#include <cstdio>
#include <deque>

namespace fairlead {
namespace {

constexpr int kKernelNotSupported =
    524;  // ENOTSUPP: an internal number that the kernel returns nevertheless
constexpr size_t kMessageCount = 4;
constexpr size_t kMessageBytes = 512;

thread_local std::deque<std::string> messages;

int KeepMessage(enum libbpf_print_level level, const char* format, va_list values) {
  if (level != LIBBPF_WARN) return 0;
  char text[kMessageBytes];
  vsnprintf(text, sizeof(text), format, values);
  std::string line(text);
  if (line.starts_with("libbpf: ")) line.erase(0, 8);
  while (!line.empty() && line.back() == '\n') line.pop_back();
  messages.push_back(line);
  if (messages.size() > kMessageCount) messages.pop_front();
  return 0;
}

std::string ErrnoText(int error) {
  if (error == kKernelNotSupported) return "Operation is not supported";
  char text[128];
  return strerror_r(error, text, sizeof(text));
}

std::string MessageOf(const Failure& failure, const std::string& code) {
  std::string message = failure.op + ": " + code;
  if (failure.error != 0) message += ": " + ErrnoText(failure.error);
  if (!failure.detail.empty()) message += ": " + failure.detail;
  return message;
}

Napi::String Text(Napi::Env env, const std::string& text) {
  return Napi::String::New(env, text);
}

}  // namespace

std::string ErrnoName(int error) {
  if (error == kKernelNotSupported) return "ENOTSUPP";
  if (error == ENOTSUP) return "ENOTSUP";  // as in Node; glibc prefers EOPNOTSUPP
  const char* name = strerrorname_np(error);
  return name ? name : "E" + std::to_string(error);
}

Napi::Array ErrnoNames(Napi::Env env, const std::vector<int>& errors) {
  Napi::Array names = Napi::Array::New(env, errors.size());
  for (uint32_t i = 0; i < errors.size(); i++) {
    if (errors[i] == 0) {
      names.Set(i, env.Undefined());
    } else {
      names.Set(i, Napi::String::New(env, ErrnoName(errors[i])));
    }
  }
  return names;
}

Napi::Value MakeError(Napi::Env env, const Failure& failure) {
  std::string code = failure.code.empty() ? ErrnoName(failure.error) : failure.code;
  napi_value value = nullptr;
  napi_create_error(env, Text(env, code), Text(env, MessageOf(failure, code)), &value);
  Napi::Object error(env, value);
  error.Set("errno", Napi::Number::New(env, failure.error));
  error.Set("op", Text(env, failure.op));
  if (!failure.log.empty()) error.Set("log", Text(env, failure.log));
  return error;
}

Napi::Value Throw(Napi::Env env, const Failure& failure) {
  napi_throw(env, MakeError(env, failure));
  return {};
}

Napi::Value ThrowErrno(Napi::Env env, int error, const char* op, const std::string& detail) {
  return Throw(env, {.error = error, .op = op, .detail = detail, .code = {}, .log = {}});
}

Napi::Value ThrowCode(Napi::Env env, const char* code, const std::string& op,
                      const std::string& detail) {
  return Throw(env, {.error = 0, .op = op, .detail = detail, .code = code, .log = {}});
}

void CaptureLibbpfMessages() {
  libbpf_set_print(KeepMessage);
}

void ForgetLibbpfMessages() {
  messages.clear();
}

std::string LibbpfMessages() {
  std::string all;
  for (const std::string& line : messages) all += (all.empty() ? "" : "; ") + line;
  return all;
}

}  // namespace fairlead
