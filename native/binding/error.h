// SPDX-License-Identifier: Apache-2.0
// Errors of the addon: what a failure is, how it becomes a JavaScript Error with code, errno and
// op, and where libbpf's own messages go (a short memory per thread, never stderr).
#ifndef FAIRLEAD_ERROR_H_
#define FAIRLEAD_ERROR_H_

#include <napi.h>

#include <string>
#include <vector>

namespace fairlead {

struct Failure {
  int error = 0;       // positive errno, 0 if none
  std::string op;      // the libbpf or system call, or the method whose argument was refused
  std::string detail;  // the object or value concerned
  std::string code;    // empty: the errno's name
  std::string log;     // the verifier's, if any
};

std::string ErrnoName(int error);

// The name of each error, and undefined for 0.
Napi::Array ErrnoNames(Napi::Env env, const std::vector<int>& errors);

Napi::Value MakeError(Napi::Env env, const Failure& failure);

// All Throw functions leave the exception pending and return an empty value to hand back.
Napi::Value Throw(Napi::Env env, const Failure& failure);
Napi::Value ThrowErrno(Napi::Env env, int error, const char* op, const std::string& detail = "");
Napi::Value ThrowCode(Napi::Env env, const char* code, const std::string& op,
                      const std::string& detail);

void CaptureLibbpfMessages();
void ForgetLibbpfMessages();
// The last warnings since ForgetLibbpfMessages on this thread, on one line, oldest first.
std::string LibbpfMessages();

}  // namespace fairlead

#endif  // FAIRLEAD_ERROR_H_
