#include "session/wire/wire.h"

namespace r2ccl {

namespace {

void put_path(Writer& out, PathId path, Epoch epoch) {
  out.put(path.packed());
  out.put(epoch.value);
}

template <class Entry, class Put>
Bytes encode_list(std::span<const Entry> entries, Put put) {
  Bytes bytes;
  Writer out(bytes);
  out.put(static_cast<std::uint16_t>(entries.size()));
  for (const Entry& entry : entries) put(out, entry);
  return bytes;
}

template <class Entry, class Get>
std::optional<std::vector<Entry>> decode_list(ByteView bytes, Get get) {
  Reader in(bytes);
  const auto count = in.get<std::uint16_t>();
  if (count > kListMax) return std::nullopt;
  std::vector<Entry> entries;
  entries.reserve(count);
  for (std::uint16_t i = 0; i < count && in.ok(); ++i) entries.push_back(get(in));
  if (!in.done()) return std::nullopt;
  return entries;
}

std::optional<IntervalSet> get_set(Reader& in) {
  Result<IntervalSet> set = IntervalSet::read(in, kRangesMax);
  if (!set) return std::nullopt;
  return std::move(*set);
}

Epoch get_epoch(Reader& in) {
  return {in.get<std::uint32_t>()};
}
PathId get_path(Reader& in) {
  return PathId::unpack(in.get<std::uint16_t>());
}

}  // namespace

Bytes encode(const OpenBody& body) {
  Bytes bytes;
  Writer out(bytes);
  out.put(body.epoch.value);
  out.put(body.eager_bytes);
  body.have.write(out);
  return bytes;
}

template <>
std::optional<OpenBody> decode(ByteView bytes) {
  Reader in(bytes);
  OpenBody body{.epoch = get_epoch(in), .eager_bytes = in.get<std::uint64_t>(), .have = {}};
  auto have = get_set(in);
  if (!have || !in.done()) return std::nullopt;
  body.have = std::move(*have);
  return body;
}

void encode(const DataBody& body, Bytes& bytes) {
  bytes.clear();
  Writer out(bytes);
  for (const std::uint64_t field :
       {body.chunk.value, body.group.value, body.stream.value, body.sequence, body.tag, body.total, body.offset})
    out.put(field);
  out.put(body.copy);
  out.put(body.flags);
}

template <>
std::optional<DataBody> decode(ByteView bytes) {
  Reader in(bytes);
  DataBody body;
  body.chunk = {in.get<std::uint64_t>()};
  body.group = {in.get<std::uint64_t>()};
  body.stream = {in.get<std::uint64_t>()};
  body.sequence = in.get<std::uint64_t>();
  body.tag = in.get<std::uint64_t>();
  body.total = in.get<std::uint64_t>();
  body.offset = in.get<std::uint64_t>();
  body.copy = in.get<std::uint16_t>();
  body.flags = in.get<std::uint8_t>();
  if (!in.done() || body.chunk.value == 0 || body.offset > body.total) return std::nullopt;
  return body;
}

Bytes encode(std::span<const CreditEntry> credits) {
  return encode_list(credits, [](Writer& out, const CreditEntry& c) {
    for (const std::uint64_t field : {c.group.value, c.stream.value, c.sequence, c.capacity, c.tag}) out.put(field);
  });
}

template <>
std::optional<std::vector<CreditEntry>> decode(ByteView bytes) {
  return decode_list<CreditEntry>(bytes, [](Reader& in) {
    CreditEntry c;
    c.group = {in.get<std::uint64_t>()};
    c.stream = {in.get<std::uint64_t>()};
    c.sequence = in.get<std::uint64_t>();
    c.capacity = in.get<std::uint64_t>();
    c.tag = in.get<std::uint64_t>();
    return c;
  });
}

Bytes encode(const ReceiptBody& body) {
  Bytes bytes;
  Writer out(bytes);
  out.put(body.eager_released);
  body.have.write(out);
  return bytes;
}

template <>
std::optional<ReceiptBody> decode(ByteView bytes) {
  Reader in(bytes);
  ReceiptBody body{.eager_released = in.get<std::uint64_t>(), .have = {}};
  auto have = get_set(in);
  if (!have || !in.done()) return std::nullopt;
  body.have = std::move(*have);
  return body;
}

Bytes encode(std::span<const CopyName> copies) {
  return encode_list(copies, [](Writer& out, const CopyName& c) {
    out.put(c.chunk.value);
    out.put(c.copy);
  });
}

template <>
std::optional<std::vector<CopyName>> decode(ByteView bytes) {
  return decode_list<CopyName>(bytes, [](Reader& in) {
    CopyName c;
    c.chunk = {in.get<std::uint64_t>()};
    c.copy = in.get<std::uint16_t>();
    return c;
  });
}

Bytes encode(const PathDownBody& body) {
  Bytes bytes;
  Writer out(bytes);
  put_path(out, body.path, body.epoch);
  out.put(static_cast<std::uint8_t>(body.cause));
  return bytes;
}

template <>
std::optional<PathDownBody> decode(ByteView bytes) {
  Reader in(bytes);
  PathDownBody body;
  body.path = get_path(in);
  body.epoch = get_epoch(in);
  const auto cause = in.get<std::uint8_t>();
  if (!in.done() || cause > static_cast<std::uint8_t>(Cause::kReplaced)) return std::nullopt;
  body.cause = static_cast<Cause>(cause);
  return body;
}

Bytes encode(const FencedBody& body) {
  Bytes bytes;
  Writer out(bytes);
  put_path(out, body.path, body.epoch);
  body.have.write(out);
  return bytes;
}

template <>
std::optional<FencedBody> decode(ByteView bytes) {
  Reader in(bytes);
  FencedBody body;
  body.path = get_path(in);
  body.epoch = get_epoch(in);
  auto have = get_set(in);
  if (!have || !in.done()) return std::nullopt;
  body.have = std::move(*have);
  return body;
}

Proof join_proof(const Secret& secret, GroupId group, ProcessId from, ProcessId to) {
  Bytes bytes;
  Writer out(bytes);
  out.put(ByteView(std::as_bytes(std::span("r2ccl join"))));
  for (const std::uint64_t field : {group.value, from.value, to.value}) out.put(field);
  return keyed_proof(secret, bytes);
}

Bytes encode(const JoinBody& body) {
  Bytes bytes;
  Writer out(bytes);
  out.put(body.group.value);
  out.put(ByteView(body.proof));
  return bytes;
}

template <>
std::optional<JoinBody> decode(ByteView bytes) {
  Reader in(bytes);
  JoinBody body;
  body.group = {in.get<std::uint64_t>()};
  const ByteView proof = in.take(body.proof.size());
  if (!in.done()) return std::nullopt;
  std::copy(proof.begin(), proof.end(), body.proof.begin());
  return body;
}

Bytes encode(GroupId group) {
  Bytes bytes;
  Writer(bytes).put(group.value);
  return bytes;
}

template <>
std::optional<GroupId> decode(ByteView bytes) {
  Reader in(bytes);
  const GroupId group{in.get<std::uint64_t>()};
  if (!in.done()) return std::nullopt;
  return group;
}

Bytes encode(std::span<const NicStateEntry> nics) {
  return encode_list(nics, [](Writer& out, const NicStateEntry& n) {
    out.put(n.nic.value);
    out.put(n.version);
    out.put(static_cast<std::uint8_t>((n.carrier ? 1 : 0) | (n.drained ? 2 : 0)));
  });
}

template <>
std::optional<std::vector<NicStateEntry>> decode(ByteView bytes) {
  return decode_list<NicStateEntry>(bytes, [](Reader& in) {
    NicStateEntry n;
    n.nic = {in.get<std::uint8_t>()};
    n.version = in.get<std::uint32_t>();
    const auto bits = in.get<std::uint8_t>();
    n.carrier = (bits & 1) != 0;
    n.drained = (bits & 2) != 0;
    return n;
  });
}

Bytes encode(const PathIdleBody& body) {
  Bytes bytes;
  Writer out(bytes);
  put_path(out, body.path, body.epoch);
  return bytes;
}

template <>
std::optional<PathIdleBody> decode(ByteView bytes) {
  Reader in(bytes);
  PathIdleBody body;
  body.path = get_path(in);
  body.epoch = get_epoch(in);
  if (!in.done()) return std::nullopt;
  return body;
}

}  // namespace r2ccl
