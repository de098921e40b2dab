// Goal: spinning is given up where it does not pay, and tried again.

#include "runtime/threads/spin.h"

#include <gtest/gtest.h>

namespace r2ccl {
namespace {

int sleeps_until_next_spin(SpinChoice& choice) {
  int sleeps = 0;
  while (!choice.spin()) ++sleeps;
  return sleeps;
}

TEST(SpinChoice, SpinsAsLongAsItPays) {
  SpinChoice choice;
  for (int i = 0; i < 1000; ++i) {
    EXPECT_TRUE(choice.spin());
    choice.on_found(10us, 50us);
  }
}

TEST(SpinChoice, MissesMakeItRarerAndASuccessMakesItUsualAgain) {
  SpinChoice choice;
  for (int i = 0; i < SpinChoice::kMissesMax; ++i) {
    EXPECT_TRUE(choice.spin());
    choice.on_missed();
  }
  for (const int expected : {32, 64, 128, 256, 512, 1024, 1024}) {
    EXPECT_EQ(sleeps_until_next_spin(choice), expected);
    choice.on_missed();
  }
  EXPECT_EQ(sleeps_until_next_spin(choice), 1024);
  choice.on_found(10us, 50us);
  EXPECT_EQ(sleeps_until_next_spin(choice), 0);
}

TEST(SpinChoice, LosingTheProcessorMeansSleeping) {
  SpinChoice choice;
  EXPECT_TRUE(choice.spin());
  choice.on_found(3ms, 50us);
  EXPECT_EQ(sleeps_until_next_spin(choice), 1024);
}

}  // namespace
}  // namespace r2ccl
