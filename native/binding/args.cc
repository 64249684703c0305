// SPDX-License-Identifier: Apache-2.0
// See args.h.
#include "binding/args.h"

#include <string.h>

#include <cmath>
#include <limits>

#include "binding/error.h"

namespace fairlead {

Napi::Value CopyBytes(Napi::Env env, const uint8_t* bytes, size_t size) {
  napi_value buffer = nullptr;
  napi_value copy = nullptr;
  void* data = nullptr;
  if (napi_create_arraybuffer(env, size, &data, &buffer) != napi_ok) return {};
  if (size > 0) memcpy(data, bytes, size);
  if (napi_create_typedarray(env, napi_uint8_array, size, buffer, 0, &copy) != napi_ok) return {};
  return Napi::Value(env, copy);
}

Args::Args(const Napi::CallbackInfo& info, const char* op, const bool* is_open)
    : info_(info), op_(op), is_open_(is_open) {
  CheckOpen();
}

void Args::CheckOpen() {
  if (!is_ok_ || is_open_ == nullptr || *is_open_) return;
  is_ok_ = false;
  ThrowCode(env(), "CLOSED", op_, "the handle is closed");
}

bool Args::ok() {
  CheckOpen();
  return is_ok_;
}

void Args::Refuse(const std::string& why) {
  if (!is_ok_) return;
  is_ok_ = false;
  ThrowCode(env(), "ARGUMENT", op_, why);
}

Napi::Value Args::Option(size_t index, const char* name) {
  Napi::Value options = At(index);
  if (IsAbsent(options)) return env().Undefined();
  if (!options.IsObject()) {
    Refuse("options must be an object");
    return env().Undefined();
  }
  napi_value value = nullptr;
  if (napi_get_named_property(env(), options, name, &value) != napi_ok) {
    is_ok_ = false;  // a getter threw: its exception is pending
    return env().Undefined();
  }
  return Napi::Value(env(), value);
}

Bytes Args::AnyBytes(Napi::Value value, const char* name) {
  if (!is_ok_) return {};
  napi_typedarray_type type = napi_int8_array;
  size_t length = 0;
  void* data = nullptr;
  if (!value.IsTypedArray() ||
      napi_get_typedarray_info(env(), value, &type, &length, &data, nullptr, nullptr) != napi_ok ||
      type != napi_uint8_array) {
    Refuse(std::string(name) + " must be a Uint8Array");
    return {};
  }
  return {static_cast<const uint8_t*>(data), length};
}

Bytes Args::ExactBytes(Napi::Value value, const char* name, size_t size) {
  Bytes bytes = AnyBytes(value, name);
  if (is_ok_ && bytes.size() != size) {
    Refuse(std::string(name) + " must be " + std::to_string(size) + " bytes, not " +
           std::to_string(bytes.size()));
  }
  return bytes;
}

Bytes Args::Elements(Napi::Value value, const char* name, size_t element_size) {
  Bytes bytes = AnyBytes(value, name);
  if (is_ok_ && (element_size == 0 || bytes.size() % element_size != 0)) {
    Refuse(std::string(name) + " must be whole elements of " + std::to_string(element_size) +
           " bytes, not " + std::to_string(bytes.size()) + " bytes");
  }
  return bytes;
}

uint32_t Args::Uint32(Napi::Value value, const char* name) {
  if (!is_ok_) return 0;
  double number = -1;
  if (value.IsNumber()) napi_get_value_double(env(), value, &number);
  if (!(number >= 0 && number <= std::numeric_limits<uint32_t>::max()) ||
      number != std::trunc(number)) {
    Refuse(std::string(name) + " must be a whole number from 0 to 4294967295");
    return 0;
  }
  return static_cast<uint32_t>(number);
}

uint32_t Args::Uint32Or(Napi::Value value, const char* name, uint32_t otherwise) {
  return IsAbsent(value) ? otherwise : Uint32(value, name);
}

bool Args::Boolean(Napi::Value value, const char* name) {
  if (is_ok_ && !value.IsBoolean()) Refuse(std::string(name) + " must be a boolean");
  return is_ok_ && value.As<Napi::Boolean>().Value();
}

bool Args::BooleanOr(Napi::Value value, const char* name, bool otherwise) {
  return IsAbsent(value) ? otherwise : Boolean(value, name);
}

std::string Args::Text(Napi::Value value, const char* name) {
  if (is_ok_ && !value.IsString()) Refuse(std::string(name) + " must be a string");
  if (!is_ok_) return {};
  std::string text = value.As<Napi::String>().Utf8Value();
  if (text.empty() || text.find('\0') != std::string::npos) {
    Refuse(std::string(name) + " must not be empty or contain NUL");
  }
  return text;
}

Napi::Function Args::Callback(Napi::Value value, const char* name) {
  if (is_ok_ && !value.IsFunction()) Refuse(std::string(name) + " must be a function");
  return is_ok_ ? value.As<Napi::Function>() : Napi::Function();
}

}  // namespace fairlead
