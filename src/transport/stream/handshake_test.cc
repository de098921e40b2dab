#include "transport/stream/handshake.h"

#include <gtest/gtest.h>

#include <string>

#include "env/seeded_random.h"
#include "testing/link_testing.h"

namespace r2ccl {
namespace {

constexpr ProcessId kConnector{0x1111};
constexpr ProcessId kAcceptor{0x2222};

Secret make_secret(int fill) {
  Secret secret;
  secret.fill(static_cast<std::byte>(fill));
  return secret;
}

Nonce make_nonce(std::uint64_t seed) {
  Nonce nonce;
  SeededRandom(seed).fill(nonce);
  return nonce;
}

// Both ends and everything said between them.
struct Talk {
  explicit Talk(const Secret& here = make_secret(1), const Secret& there = make_secret(1), ProcessId to = kAcceptor,
                std::uint64_t seed = 1) {
    const KeyId named = ring.add(there);
    connector = std::make_unique<Handshake>(Hello{Purpose::kData, named, kConnector, to, PathId{{3}, {4}}}, here,
                                            make_nonce(seed));
    acceptor = std::make_unique<Handshake>(kAcceptor, ring, make_nonce(seed + 1000));
  }

  static void pass(Handshake& from, Handshake& to, Bytes& heard) {
    const ByteView out = from.output();
    heard.insert(heard.end(), out.begin(), out.end());
    const Bytes copy(out.begin(), out.end());
    from.sent(copy.size());
    to.take(copy);
  }
  void run() {
    for (int i = 0; i < 4; ++i) {
      pass(*connector, *acceptor, from_connector);
      pass(*acceptor, *connector, from_acceptor);
    }
  }

  Keyring ring;
  std::unique_ptr<Handshake> connector;
  std::unique_ptr<Handshake> acceptor;
  Bytes from_connector;
  Bytes from_acceptor;
};

TEST(HandshakeBetweenFriends, ProvesBothEndsAndCarriesTheHello) {
  Talk talk;
  talk.run();
  ASSERT_EQ(talk.connector->state(), Handshake::State::kProven) << talk.connector->error();
  ASSERT_EQ(talk.acceptor->state(), Handshake::State::kProven) << talk.acceptor->error();
  EXPECT_EQ(talk.connector->peer(), kAcceptor);
  EXPECT_EQ(talk.acceptor->peer(), kConnector);
  EXPECT_EQ(talk.acceptor->hello().path, (PathId{{3}, {4}}));
  EXPECT_EQ(talk.acceptor->hello().purpose, Purpose::kData);
  EXPECT_EQ(talk.from_connector.size(), kHelloBytes + kProofBytes);
  EXPECT_EQ(talk.from_acceptor.size(), kChallengeBytes + kAcceptBytes);
}

TEST(HandshakeBetweenFriends, WhoeverListensIsLearnedWhenNobodyWasNamed) {
  Talk talk(make_secret(1), make_secret(1), ProcessId{});
  talk.run();
  ASSERT_EQ(talk.connector->state(), Handshake::State::kProven);
  EXPECT_EQ(talk.connector->peer(), kAcceptor);
}

TEST(HandshakeBetweenFriends, BytesBehindTheHandshakeAreNotTaken) {
  Talk talk;
  talk.pass(*talk.connector, *talk.acceptor, talk.from_connector);
  talk.pass(*talk.acceptor, *talk.connector, talk.from_acceptor);
  const ByteView proof = talk.connector->output();
  Bytes more(proof.begin(), proof.end());
  more.resize(more.size() + 10);
  EXPECT_EQ(talk.acceptor->take(more), kProofBytes);
  EXPECT_EQ(talk.acceptor->state(), Handshake::State::kProven);
}

TEST(HandshakeWithAnotherSecret, TheConnectorFindsTheAnswererOut) {
  Talk talk(make_secret(1), make_secret(2));
  talk.run();
  EXPECT_EQ(talk.connector->state(), Handshake::State::kFailed);
  EXPECT_EQ(talk.connector->cause(), Cause::kUnproven);
  EXPECT_NE(talk.acceptor->state(), Handshake::State::kProven);
}

TEST(HandshakeWithAnotherSecret, TheAcceptorFindsAForgedProofOut) {
  Talk talk;
  talk.pass(*talk.connector, *talk.acceptor, talk.from_connector);
  talk.pass(*talk.acceptor, *talk.connector, talk.from_acceptor);
  const ByteView proof = talk.connector->output();
  for (std::size_t i = kHandshakePrefixBytes; i < kProofBytes; ++i) {
    Talk other;
    other.pass(*other.connector, *other.acceptor, other.from_connector);
    Bytes forged(proof.begin(), proof.end());
    forged[i] ^= std::byte{1};
    other.acceptor->take(forged);
    ASSERT_EQ(other.acceptor->state(), Handshake::State::kFailed) << "byte " << i;
    EXPECT_EQ(other.acceptor->error(), "the connector does not know the secret");
  }
}

TEST(HandshakeWithAnotherSecret, AnUnknownKeyIsRefusedByName) {
  Talk talk;
  Keyring empty;
  Handshake acceptor(kAcceptor, empty, make_nonce(5));
  talk.pass(*talk.connector, acceptor, talk.from_connector);
  talk.pass(acceptor, *talk.connector, talk.from_acceptor);
  EXPECT_EQ(acceptor.state(), Handshake::State::kFailed);
  EXPECT_EQ(talk.connector->state(), Handshake::State::kFailed);
  EXPECT_NE(talk.connector->error().find("does not know key"), std::string::npos);
}

TEST(HandshakeTampered, AnyByteChangedOnTheWayProvesNothing) {
  const std::size_t total = kHelloBytes + kProofBytes + kChallengeBytes + kAcceptBytes;
  for (std::size_t target = 0; target < total; ++target) {
    Talk talk;
    std::size_t offset = 0;
    const auto pass = [&](Handshake& from, Handshake& to) {
      Bytes copy(from.output().begin(), from.output().end());
      from.sent(copy.size());
      if (target >= offset && target < offset + copy.size()) copy[target - offset] ^= std::byte{0x40};
      offset += copy.size();
      to.take(copy);
    };
    for (int i = 0; i < 3; ++i) {
      pass(*talk.connector, *talk.acceptor);
      pass(*talk.acceptor, *talk.connector);
    }
    EXPECT_NE(talk.connector->state(), Handshake::State::kProven) << "byte " << target;
  }
}

TEST(HandshakeTruncated, AtEveryByteProvesNothingAndStaysReady) {
  Talk whole;
  whole.run();
  for (std::size_t cut = 0; cut < whole.from_connector.size(); ++cut) {
    Talk talk;  // the same seeds: the same exchange
    const ByteView said(whole.from_connector);
    for (std::size_t i = 0; i < cut; ++i) talk.acceptor->take(said.subspan(i, 1));
    EXPECT_EQ(talk.acceptor->state(), Handshake::State::kTalking) << "cut " << cut;
  }
  for (std::size_t cut = 0; cut < whole.from_acceptor.size(); ++cut) {
    Talk talk;
    const ByteView said(whole.from_acceptor);
    for (std::size_t i = 0; i < cut; ++i) talk.connector->take(said.subspan(i, 1));
    EXPECT_EQ(talk.connector->state(), Handshake::State::kTalking) << "cut " << cut;
  }
}

TEST(HandshakeReplayed, ARecordedExchangeConvincesNeitherEnd) {
  Talk recorded;
  recorded.run();
  Talk fresh(make_secret(1), make_secret(1), kAcceptor, 2);  // other nonces
  fresh.acceptor->take(recorded.from_connector);
  EXPECT_EQ(fresh.acceptor->state(), Handshake::State::kFailed);
  fresh.connector->take(recorded.from_acceptor);
  EXPECT_EQ(fresh.connector->state(), Handshake::State::kFailed);
}

TEST(HandshakeReplayed, AnEndDoesNotAcceptItsOwnWordsReflected) {
  Talk talk;
  const Bytes own(talk.connector->output().begin(), talk.connector->output().end());
  talk.connector->take(own);
  EXPECT_EQ(talk.connector->state(), Handshake::State::kFailed);
}

TEST(HandshakeRefused, AnotherVersionGetsOursAndASentence) {
  Talk talk;
  Bytes hello(talk.connector->output().begin(), talk.connector->output().end());
  hello[4] = std::byte{9};
  talk.acceptor->take(hello);
  EXPECT_EQ(talk.acceptor->state(), Handshake::State::kFailed);
  EXPECT_EQ(talk.acceptor->error(), "the other end speaks protocol version 9, this one version 2");
  ASSERT_EQ(talk.acceptor->output().size(), kRefuseBytes);
  Bytes refusal(talk.acceptor->output().begin(), talk.acceptor->output().end());
  refusal[4] = std::byte{3};  // as a release with version 3 would say it
  talk.connector->take(refusal);
  EXPECT_EQ(talk.connector->state(), Handshake::State::kFailed);
  EXPECT_EQ(talk.connector->error(), "refused: the other end speaks protocol version 3, this one version 2");
}

TEST(HandshakeRefused, AnotherProcessAtThatAddressCountsAsNobodyListening) {
  Talk talk(make_secret(1), make_secret(1), ProcessId{0x9999});
  talk.run();
  EXPECT_EQ(talk.acceptor->state(), Handshake::State::kFailed);
  EXPECT_EQ(talk.connector->cause(), Cause::kRefused);
  EXPECT_NE(talk.connector->error().find("0000000000009999"), std::string::npos);
}

TEST(HandshakeRefused, GarbageFailsWithinThePrefix) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Talk talk;
    Bytes garbage(4096);
    SeededRandom(seed).fill(garbage);
    EXPECT_LE(talk.acceptor->take(garbage), kHandshakePrefixBytes);
    EXPECT_EQ(talk.acceptor->state(), Handshake::State::kFailed);
    talk.connector->take(garbage);
    EXPECT_EQ(talk.connector->state(), Handshake::State::kFailed);
  }
}

TEST(HandshakeRefused, OversizedHelloIsNotAProof) {
  Talk talk;
  Bytes hello(talk.connector->output().begin(), talk.connector->output().end());
  hello.resize(hello.size() + 64 * 1024, std::byte{'A'});
  talk.acceptor->take(hello);
  EXPECT_EQ(talk.acceptor->state(), Handshake::State::kFailed);
}

TEST(KeyringNames, AKeyIsFoundUntilItIsRemovedAndItsNameIsNotItsSecret) {
  Keyring ring;
  const Secret secret = make_secret(7);
  const KeyId id = ring.add(secret);
  ASSERT_NE(ring.find(id), nullptr);
  EXPECT_EQ(*ring.find(id), secret);
  EXPECT_NE(key_id(make_secret(8)), id);
  EXPECT_NE(id.value, 0x0707070707070707u);
  ring.remove(id);
  EXPECT_EQ(ring.find(id), nullptr);
}

}  // namespace
}  // namespace r2ccl
