#pragma once
// Our log lines, written by NCCL's own logger, under its subsystem NET: NCCL decides what is shown and where.
//
//   error, warn → WARN    info → INFO    debug → TRACE
//
// Threads    Any.

#include <atomic>

#include "env/env.h"
#include "plugin/nccl/nccl_net.h"

namespace r2ccl::plugin {

class NcclLog final : public Log {
 public:
  // Lines finer than `finest` are not even made: NCCL would drop them.
  explicit NcclLog(LogLevel finest) : finest_(finest) {}
  // The newest one counts; before the first nothing is written.
  void use(nccl::Logger logger) { logger_ = logger; }

  bool enabled(LogLevel level) const override { return level <= finest_; }
  void write(LogLevel level, std::string_view line) override;

 private:
  const LogLevel finest_;
  std::atomic<nccl::Logger> logger_ = nullptr;
};

}  // namespace r2ccl::plugin
