#include "transport/stream/keyring.h"

#include <sodium.h>

#include <cstring>
#include <string_view>

namespace r2ccl {
namespace {

constexpr std::string_view kKeyIdLabel = "r2ccl key id";

}  // namespace

KeyId key_id(const Secret& secret) {
  const Proof proof = keyed_proof(secret, std::as_bytes(std::span(kKeyIdLabel)));
  KeyId id;
  std::memcpy(&id.value, proof.data(), sizeof id.value);
  return id;
}

KeyId Keyring::add(const Secret& secret) {
  const KeyId id = key_id(secret);
  secrets_[id] = secret;
  return id;
}

void Keyring::remove(KeyId id) {
  const auto found = secrets_.find(id);
  if (found == secrets_.end()) return;
  sodium_memzero(found->second.data(), found->second.size());
  secrets_.erase(found);
}

const Secret* Keyring::find(KeyId id) const {
  const auto found = secrets_.find(id);
  return found == secrets_.end() ? nullptr : &found->second;
}

}  // namespace r2ccl
