#pragma once
// The secrets this process knows, by their public name.

#include <map>

#include "base/bytes.h"
#include "base/id.h"
#include "env/secret.h"

namespace r2ccl {

// keyed_proof() and same_proof() are in env/secret.h.
KeyId key_id(const Secret& secret);  // first 8 bytes of a keyed hash; reveals nothing

class Keyring {
 public:
  KeyId add(const Secret& secret);
  void remove(KeyId id);
  const Secret* find(KeyId id) const;

 private:
  std::map<KeyId, Secret> secrets_;
};

}  // namespace r2ccl
