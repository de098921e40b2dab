#pragma once
// Where commands print. Results go to `out`, progress and errors to `err`; colours and progress only where a person
// looks.

#include <cstdint>
#include <string>
#include <string_view>

namespace r2ccl::apps {

enum class Colour : std::uint8_t { kPlain, kBold, kDim, kRed, kGreen, kYellow, kBlue };

class Console {
 public:
  virtual ~Console() = default;
  virtual void out(std::string_view text) = 0;
  virtual void err(std::string_view text) = 0;
  virtual bool out_is_terminal() const = 0;
  virtual bool err_is_terminal() const = 0;

  void line(std::string_view text);
  // One sentence for the person at the keyboard: "r2ccl demo: ...".
  void error(std::string_view command, std::string_view sentence);
  // Coloured when `out` is a terminal.
  std::string paint(Colour colour, std::string_view text) const;

  // Replaces the last progress line; nothing unless `err` is a terminal. An empty text removes it.
  void progress(std::string_view text);

 private:
  bool progress_shown_ = false;
};

// The process's own standard output and error. Every call is written through, so that a fork copies no pending text.
class StandardConsole final : public Console {
 public:
  StandardConsole();
  void out(std::string_view text) override;
  void err(std::string_view text) override;
  bool out_is_terminal() const override { return out_is_terminal_; }
  bool err_is_terminal() const override { return err_is_terminal_; }

 private:
  bool out_is_terminal_;
  bool err_is_terminal_;
};

}  // namespace r2ccl::apps
