// SPDX-License-Identifier: Apache-2.0
// Checked readers for the arguments of one call. The first refusal is thrown and remembered; later
// reads then return zeros, so that a function reads everything and asks ok() once. Only the raw API
// is used here, because reading an option may run user code.
#ifndef FAIRLEAD_ARGS_H_
#define FAIRLEAD_ARGS_H_

#include <napi.h>

#include <cstdint>
#include <span>
#include <string>

namespace fairlead {

using Bytes = std::span<const uint8_t>;

// A new Uint8Array, or an empty value if the environment is ending (node-addon-api's own would then
// be written to through a null pointer).
Napi::Value CopyBytes(Napi::Env env, const uint8_t* bytes, size_t size);

class Args {
 public:
  // `is_open`: the flag of the handle the method belongs to; false throws 'CLOSED'.
  Args(const Napi::CallbackInfo& info, const char* op, const bool* is_open = nullptr);

  // The argument at `index`; the option `name` of the object at `index` (undefined if there is
  // none).
  Napi::Value At(size_t index) const { return info_[index]; }
  Napi::Value Option(size_t index, const char* name);

  Bytes AnyBytes(Napi::Value value, const char* name);
  Bytes ExactBytes(Napi::Value value, const char* name, size_t size);
  // Whole elements of `element_size` back to back.
  Bytes Elements(Napi::Value value, const char* name, size_t element_size);
  uint32_t Uint32(Napi::Value value, const char* name);
  uint32_t Uint32Or(Napi::Value value, const char* name, uint32_t otherwise);
  bool Boolean(Napi::Value value, const char* name);
  bool BooleanOr(Napi::Value value, const char* name, bool otherwise);
  // Text without NUL bytes, for paths and names.
  std::string Text(Napi::Value value, const char* name);
  Napi::Function Callback(Napi::Value value, const char* name);

  void Refuse(const std::string& why);
  // False once an exception is pending; also checks again that user code did not close the handle.
  bool ok();
  Napi::Env env() const { return info_.Env(); }

 private:
  void CheckOpen();
  bool IsAbsent(Napi::Value value) const { return value.IsUndefined() || !is_ok_; }

  const Napi::CallbackInfo& info_;
  const char* op_;
  const bool* is_open_;
  bool is_ok_ = true;
};

}  // namespace fairlead

#endif  // FAIRLEAD_ARGS_H_
