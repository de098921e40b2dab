// The `r2ccl` command.

#include <string>
#include <vector>

#include "apps/r2ccl/common/command.h"
#include "env/settings.h"

extern char** environ;

int main(int argc, char** argv) {
  r2ccl::apps::StandardConsole console;
  const r2ccl::apps::Context context{console, r2ccl::environment_of(environ)};
  return r2ccl::apps::run_command_line(std::vector<std::string>(argv + 1, argv + argc), context);
}
