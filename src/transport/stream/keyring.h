#pragma once
// The secrets this process knows, by their public name. A HELLO names its group's secret by this id; the handshake then
// proves, with keyed_proof() of env/secret.h, that both ends know it.

#include <map>

#include "base/bytes.h"
#include "base/id.h"
#include "env/secret.h"

namespace r2ccl {

KeyId key_id(const Secret& secret);  // the first 8 bytes of a keyed hash, which reveal nothing of the secret

class Keyring {
 public:
  KeyId add(const Secret& secret);
  void remove(KeyId id);
  const Secret* find(KeyId id) const;

 private:
  std::map<KeyId, Secret> secrets_;
};

}  // namespace r2ccl
