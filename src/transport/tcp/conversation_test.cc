#include "transport/tcp/conversation.h"

#include <gtest/gtest.h>

namespace r2ccl {
namespace {

TEST(Conversation, OneWayIsNeverLookedAt) {
  Conversation sends;
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(sends.wrote());
  Conversation receives;
  for (int i = 0; i < 100; ++i) receives.read(true);
  EXPECT_TRUE(receives.wrote());   // the first word after many heard
  EXPECT_FALSE(receives.wrote());  // nothing was heard since
}

TEST(Conversation, AnAnswerIsLookedForAsLongAsItIsThere) {
  Conversation talk;
  talk.read(true);
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(talk.wrote());
    talk.read(true);
  }
}

TEST(Conversation, LooksInVainBecomeRare) {
  Conversation talk;
  talk.read(true);
  int looks = 0;
  for (int i = 0; i < 1000; ++i) {
    if (talk.wrote()) {
      ++looks;
      talk.read(false);
    }
    talk.read(true);  // it comes later
  }
  EXPECT_LT(looks, 25);
  EXPECT_GT(looks, 10);  // but it goes on trying
}

TEST(Conversation, OneLookThatFindsItBringsThemBack) {
  Conversation talk;
  talk.read(true);
  for (int i = 0; i < 200; ++i) {
    if (talk.wrote()) talk.read(false);
    talk.read(true);
  }
  int answers = 0;
  for (; !talk.wrote() && answers < 100; ++answers) talk.read(true);
  ASSERT_LT(answers, 64);
  talk.read(true);
  EXPECT_TRUE(talk.wrote());
}

}  // namespace
}  // namespace r2ccl
