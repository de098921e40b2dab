#include "apps/r2ccl/demo/demo_report.h"

#include <nlohmann/json.hpp>

namespace r2ccl::apps {
namespace {

std::int64_t number(Instant at) {
  return at.time_since_epoch().count();
}

Instant instant(const Json& object, const char* key) {
  return Instant(Duration(object.at(key).get<std::int64_t>()));
}

}  // namespace

Json to_json(const DemoEvent& event) {
  return {{"event", static_cast<int>(event.kind)},
          {"at", number(event.at)},
          {"peer", event.peer},
          {"here", event.here},
          {"there", event.there},
          {"cause", static_cast<int>(event.cause)},
          {"number", event.number},
          {"extra", event.extra}};
}

DemoEvent demo_event(const Json& object) {
  return {.kind = static_cast<EventKind>(object.at("event").get<int>()),
          .at = instant(object, "at"),
          .peer = object.at("peer"),
          .here = object.at("here"),
          .there = object.at("there"),
          .cause = static_cast<Cause>(object.at("cause").get<int>()),
          .number = object.at("number"),
          .extra = object.at("extra")};
}

Json to_json(const DemoResent& resent) {
  return {{"resent", resent.bytes}, {"at", number(resent.at)}, {"nic", resent.nic}};
}

DemoResent demo_resent(const Json& object) {
  return {.at = instant(object, "at"), .nic = object.at("nic"), .bytes = object.at("resent")};
}

Json to_json(const DemoGap& gap) {
  return {{"gap", number(gap.from)}, {"to", number(gap.to)}};
}

DemoGap demo_gap(const Json& object) {
  return {.from = instant(object, "gap"), .to = instant(object, "to")};
}

Json to_json(const DemoTick& tick) {
  return {{"tick", number(tick.at)}, {"sent", tick.sent_bytes}};
}

DemoTick demo_tick(const Json& object) {
  return {.at = instant(object, "tick"), .sent_bytes = object.at("sent")};
}

Json to_json(const DemoRound& round) {
  return {{"round", round.number},
          {"at", number(round.at)},
          {"wrong", round.wrong},
          {"algorithm", round.algorithm},
          {"health", round.health_version}};
}

DemoRound demo_round(const Json& object) {
  return {.number = object.at("round"),
          .at = instant(object, "at"),
          .wrong = object.at("wrong"),
          .algorithm = object.at("algorithm"),
          .health_version = object.at("health")};
}

Json to_json(const DemoTotals& totals) {
  return {{"totals", totals.rounds}, {"checked", totals.checked}, {"wrong", totals.wrong}};
}

DemoTotals demo_totals(const Json& object) {
  return {.rounds = object.at("totals"), .checked = object.at("checked"), .wrong = object.at("wrong")};
}

}  // namespace r2ccl::apps
