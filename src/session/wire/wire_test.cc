// Goal: every body survives the wire, and nothing malformed is believed.
// Method: encode, decode, compare; then every truncation and one byte too many.

#include "session/wire/wire.h"

#include <gtest/gtest.h>

#include "transport/link.h"

namespace r2ccl {
namespace {

IntervalSet some_set() {
  IntervalSet set;
  for (const std::uint64_t n : {1, 2, 3, 7, 8, 20}) set.insert(n);
  return set;
}

template <class Body>
void refuses_other_lengths(const Bytes& bytes) {
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(decode<Body>(ByteView(bytes).first(size))) << size;
  Bytes longer = bytes;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(decode<Body>(longer));
}

TEST(Wire, OpenRoundTrips) {
  const Bytes bytes = encode(OpenBody{{5}, 4096, some_set()});
  const auto body = decode<OpenBody>(bytes);
  ASSERT_TRUE(body);
  EXPECT_EQ(body->epoch, Epoch{5});
  EXPECT_EQ(body->eager_bytes, 4096u);
  EXPECT_EQ(body->have, some_set());
  refuses_other_lengths<OpenBody>(bytes);
}

TEST(Wire, DataRoundTrips) {
  Bytes bytes;
  encode(DataBody{.chunk = {9},
                  .group = {1},
                  .stream = {2},
                  .sequence = 3,
                  .tag = 4,
                  .total = 50,
                  .offset = 10,
                  .copy = 2,
                  .flags = 4},
         bytes);
  const auto body = decode<DataBody>(bytes);
  ASSERT_TRUE(body);
  EXPECT_EQ(body->chunk, ChunkId{9});
  EXPECT_EQ(body->total, 50u);
  EXPECT_EQ(body->offset, 10u);
  EXPECT_EQ(body->copy, 2u);
  refuses_other_lengths<DataBody>(bytes);
}

TEST(Wire, DataBeyondItsMessageOrWithoutNumberIsRefused) {
  Bytes bytes;
  encode(DataBody{.chunk = {9}, .total = 5, .offset = 10}, bytes);
  EXPECT_FALSE(decode<DataBody>(bytes));
  encode(DataBody{.chunk = {0}, .total = 5}, bytes);
  EXPECT_FALSE(decode<DataBody>(bytes));
}

TEST(Wire, ListsRoundTripUpToTheirLimit) {
  std::vector<CreditEntry> credits(kListMax, CreditEntry{{1}, {2}, 3, 4, 5});
  const Bytes full = encode(std::span<const CreditEntry>(credits));
  EXPECT_LE(full.size(), kBodyBytesMax);
  EXPECT_EQ(decode<std::vector<CreditEntry>>(full)->size(), kListMax);
  credits.emplace_back();
  EXPECT_FALSE(decode<std::vector<CreditEntry>>(encode(std::span<const CreditEntry>(credits))));
  const std::vector<CopyName> copies{{{1}, 2}, {{3}, 4}};
  const Bytes bytes = encode(std::span<const CopyName>(copies));
  EXPECT_EQ((*decode<std::vector<CopyName>>(bytes))[1].chunk, ChunkId{3});
  refuses_other_lengths<std::vector<CopyName>>(bytes);
}

TEST(Wire, NoticesRoundTrip) {
  const PathId path{{1}, {2}};
  const Bytes down = encode(PathDownBody{path, {3}, Cause::kReset});
  EXPECT_EQ(decode<PathDownBody>(down)->cause, Cause::kReset);
  EXPECT_EQ(decode<PathDownBody>(down)->path, path);
  refuses_other_lengths<PathDownBody>(down);
  Bytes unknown_cause = down;
  unknown_cause.back() = std::byte{0xff};
  EXPECT_FALSE(decode<PathDownBody>(unknown_cause));
  const Bytes fenced = encode(FencedBody{path, {3}, some_set()});
  EXPECT_EQ(decode<FencedBody>(fenced)->have, some_set());
  refuses_other_lengths<FencedBody>(fenced);
}

TEST(Wire, JoinProofBindsGroupAndDirection) {
  const Secret secret{};
  const Proof proof = join_proof(secret, {1}, {2}, {3});
  EXPECT_NE(proof, join_proof(secret, {1}, {3}, {2}));
  EXPECT_NE(proof, join_proof(secret, {4}, {2}, {3}));
  const Bytes bytes = encode(JoinBody{{1}, proof});
  EXPECT_EQ(decode<JoinBody>(bytes)->proof, proof);
  refuses_other_lengths<JoinBody>(bytes);
}

}  // namespace
}  // namespace r2ccl
