#pragma once
// For tests: a console that keeps what was said.

#include <string>
#include <string_view>

#include "apps/r2ccl/common/console.h"

namespace r2ccl::apps {

class TestConsole final : public Console {
 public:
  void out(std::string_view text) override { out_text += text; }
  void err(std::string_view text) override { err_text += text; }
  bool out_is_terminal() const override { return terminal; }
  bool err_is_terminal() const override { return terminal; }
  std::string out_text, err_text;
  bool terminal = false;
};

}  // namespace r2ccl::apps
