#include "env/secret.h"

#include <sodium.h>

namespace r2ccl {

namespace {

const unsigned char* raw(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}

}  // namespace

Proof keyed_proof(const Secret& secret, ByteView data) {
  Proof proof;
  crypto_generichash(reinterpret_cast<unsigned char*>(proof.data()), proof.size(), raw(data.data()), data.size(),
                     raw(secret.data()), secret.size());
  return proof;
}

bool same_proof(const Proof& a, ByteView b) {
  return b.size() == a.size() && sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace r2ccl
