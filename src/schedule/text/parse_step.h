#pragma once
// Reads one step of a lane from its line (text.h has the grammar). Only parse.cc uses it.

#include <string_view>
#include <vector>

#include "base/result.h"
#include "schedule/schedule.h"
#include "schedule/text/parse_words.h"

namespace r2ccl {

struct ParsedStep {
  // step.waits[wait] waits for the lane of this name; its lane number is not known yet.
  struct NamedWait {
    std::size_t wait = 0;
    std::string_view lane;  // in the text
  };

  Step step;
  bool once = false;  // stands outside the inner loop
  std::vector<NamedWait> named;
};

// `first` is the first word of the line, `rest` what follows.
Result<ParsedStep> parse_step(std::string_view first, Words rest);

}  // namespace r2ccl
