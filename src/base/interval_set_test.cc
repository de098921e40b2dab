#include "base/interval_set.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace r2ccl {
namespace {

using Range = IntervalSet::Range;

IntervalSet set_of(std::initializer_list<std::uint64_t> numbers) {
  IntervalSet set;
  for (const auto number : numbers) set.insert(number);
  return set;
}

std::vector<Range> ranges_of(const IntervalSet& set) {
  return {set.ranges().begin(), set.ranges().end()};
}

void expect_canonical(const IntervalSet& set) {
  std::uint64_t next = set.cumulative();
  for (const Range& range : set.ranges()) {
    ASSERT_GT(range.first, next);
    ASSERT_GE(range.last, range.first);
    next = range.last + 1;
  }
}

Result<IntervalSet> read_back(const Bytes& bytes, std::size_t ranges_max) {
  Reader in(bytes);
  return IntervalSet::read(in, ranges_max);
}

TEST(IntervalSet, BeginsWithOnlyZeroIn) {
  const IntervalSet set;
  EXPECT_EQ(set.cumulative(), 1u);
  EXPECT_TRUE(set.contains(0));
  EXPECT_FALSE(set.contains(1));
  EXPECT_TRUE(set.ranges().empty());
}

TEST(IntervalSet, InOrderNeedsNoRanges) {
  IntervalSet set;
  EXPECT_FALSE(set.insert(0));
  for (std::uint64_t n = 1; n <= 1000; ++n) {
    ASSERT_TRUE(set.insert(n));
    ASSERT_FALSE(set.insert(n));
    ASSERT_TRUE(set.ranges().empty());
  }
  EXPECT_EQ(set.cumulative(), 1001u);
}

TEST(IntervalSet, GapsCloseFromEitherSide) {
  IntervalSet set = set_of({3, 5, 7});
  EXPECT_EQ(ranges_of(set), (std::vector<Range>{{3, 3}, {5, 5}, {7, 7}}));
  EXPECT_TRUE(set.insert(6));
  EXPECT_EQ(ranges_of(set), (std::vector<Range>{{3, 3}, {5, 7}}));
  EXPECT_TRUE(set.insert(4));
  EXPECT_EQ(ranges_of(set), (std::vector<Range>{{3, 7}}));
  EXPECT_TRUE(set.insert(1));
  EXPECT_EQ(set.cumulative(), 2u);
  EXPECT_TRUE(set.insert(2));
  EXPECT_EQ(set.cumulative(), 8u);
  EXPECT_TRUE(set.ranges().empty());
}

TEST(IntervalSet, ExtremeNumbersAreMembersLikeOthers) {
  IntervalSet set;
  EXPECT_TRUE(set.insert(~0ull - 1));
  EXPECT_FALSE(set.insert(~0ull - 1));
  EXPECT_TRUE(set.contains(~0ull - 1));
  EXPECT_FALSE(set.insert(~0ull));
  EXPECT_FALSE(set.contains(~0ull));
}

TEST(IntervalSet, BehavesLikeAStdSet) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    IntervalSet set;
    IntervalSet earlier;
    std::set<std::uint64_t> model = {0};
    const std::uint64_t span = 20 + random() % 200;
    for (int i = 0; i < 300; ++i) {
      const std::uint64_t number = random() % span;
      ASSERT_EQ(set.insert(number), model.insert(number).second);
      if (i == 100) earlier = set;
    }
    expect_canonical(set);
    for (std::uint64_t n = 0; n < span + 2; ++n) ASSERT_EQ(set.contains(n), model.contains(n)) << n;
    ASSERT_TRUE(set.includes(earlier));
    ASSERT_EQ(earlier.includes(set), earlier == set);
  }
}

TEST(IntervalSet, MergeIsUnionAndIncludesIsSubset) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    IntervalSet a;
    IntervalSet b;
    std::set<std::uint64_t> model_a = {0};
    std::set<std::uint64_t> model_b = {0};
    for (int i = 0; i < 40; ++i) {
      const std::uint64_t first = random() % 60;
      const std::uint64_t last = first + random() % 3;
      a.insert_range(first, last);
      for (auto n = first; n <= last; ++n) model_a.insert(n);
      if (const std::uint64_t n = random() % 50; i % 2 == 0) {
        b.insert(n);
        model_b.insert(n);
      }
    }
    ASSERT_EQ(a.includes(b), std::ranges::includes(model_a, model_b));
    ASSERT_EQ(b.includes(a), std::ranges::includes(model_b, model_a));
    IntervalSet both = a;
    both.merge(b);
    expect_canonical(both);
    model_a.insert(model_b.begin(), model_b.end());
    for (std::uint64_t n = 0; n < 70; ++n) ASSERT_EQ(both.contains(n), model_a.contains(n)) << n;
    ASSERT_TRUE(both.includes(a));
    ASSERT_TRUE(both.includes(b));
  }
}

TEST(IntervalSet, WireFormRoundTrips) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    std::mt19937_64 random(seed);
    IntervalSet set;
    for (int i = 0; i < 100; ++i) set.insert(1 + random() % 300);
    Bytes bytes;
    Writer out(bytes);
    set.write(out);
    ASSERT_EQ(bytes.size(), IntervalSet::wire_size(set.ranges().size()));
    Reader in(bytes);
    const auto back = IntervalSet::read(in, 1000);
    ASSERT_TRUE(back.has_value()) << back.error().what;
    ASSERT_TRUE(in.done());
    ASSERT_EQ(*back, set);
  }
}

TEST(IntervalSet, WhatDoesNotFitTheWireIsLeftOutAndNeverInvented) {
  IntervalSet set = set_of({3});
  set.insert(1ull << 40);
  Bytes bytes;
  Writer out(bytes);
  set.write(out);
  const auto back = read_back(bytes, 10);
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(*back, set_of({3}));
  EXPECT_TRUE(set.includes(*back));
}

TEST(IntervalSet, MalformedWireFormsAreRefused) {
  struct Form {
    const char* name;
    std::uint64_t cumulative;
    std::vector<std::uint32_t> fields;
    std::uint16_t count;
  };
  const std::vector<Form> forms = {
      {"bound zero", 0, {}, 0},
      {"cut short", 5, {1}, 1},
      {"too many ranges", 5, {1, 1, 1, 1, 1, 1}, 3},
      {"adjacent to the bound", 5, {0, 1}, 1},
      {"adjacent to each other", 5, {1, 1, 0, 1}, 2},
      {"empty range", 5, {1, 0}, 1},
      {"overflow", ~0ull - 2, {2, 2}, 1},
  };
  for (const Form& form : forms) {
    Bytes bytes;
    Writer out(bytes);
    out.put(form.cumulative);
    out.put(form.count);
    for (const auto field : form.fields) out.put(field);
    const auto result = read_back(bytes, 2);
    ASSERT_FALSE(result.has_value()) << form.name;
    EXPECT_EQ(result.error().fault, Fault::kMisuse);
  }
  EXPECT_FALSE(read_back({}, 2).has_value());
}

TEST(IntervalSet, RandomBytesGiveASetOrASentence) {
  std::mt19937_64 random(9);
  for (int round = 0; round < 20000; ++round) {
    Bytes bytes(random() % 40);
    for (std::byte& b : bytes) b = static_cast<std::byte>(random() % 3);
    const auto result = read_back(bytes, 4);
    if (!result) continue;
    expect_canonical(*result);
    Bytes again;
    Writer out(again);
    result->write(out);
    ASSERT_TRUE(std::equal(again.begin(), again.end(), bytes.begin()));
  }
}

}  // namespace
}  // namespace r2ccl
