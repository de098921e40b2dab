#include "telemetry/stats_page.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <optional>
#include <system_error>
#include <tuple>
#include <type_traits>

#include "base/fd.h"

namespace r2ccl {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMagic = 0x3170616765326372;  // the version is part of it
constexpr int kShareBits = 20;
constexpr int kTriesMax = 100;  // a reader gives up after so many torn copies

using PageWords = std::array<std::uint64_t, sizeof(Stats) / sizeof(std::uint64_t)>;
static_assert(std::is_trivially_copyable_v<Stats> && sizeof(PageWords) == sizeof(Stats));

Status make_directory(const std::string& directory) {
  std::error_code error;
  if (!fs::create_directories(directory, error)) {
    if (!error) return {};
    return fail(Fault::kMisuse, fmt::format("no directory '{}': {}", directory, error.message()));
  }
  // Everybody may make files there, and nobody may remove another user's, as in /dev/shm itself.
  ::chmod(directory.c_str(), S_ISVTX | 0777);
  return {};
}

bool lives(std::uint64_t process) {
  return ::kill(static_cast<pid_t>(process), 0) == 0 || errno != ESRCH;
}

// Removes pages of processes that were killed or ended without removing theirs. A page's name begins with its process's
// id.
void remove_dead(const std::string& directory) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    std::uint64_t process = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), process).ec != std::errc{} || lives(process)) continue;
    fs::remove(entry.path(), error);
  }
}

}  // namespace

struct StatsPage::Memory {
  std::atomic<std::uint64_t> magic;
  std::atomic<std::uint64_t> sequence;
  std::atomic<std::uint64_t> progress;
  std::array<std::atomic<std::uint64_t>, std::tuple_size_v<PageWords>> words;
};

struct StatsReader {
  static std::optional<StatsView> read(const std::string& path) {
    const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    struct stat about{};
    if (!file || ::fstat(file.get(), &about) != 0 || about.st_size != sizeof(StatsPage::Memory)) return std::nullopt;
    void* const mapped = ::mmap(nullptr, sizeof(StatsPage::Memory), PROT_READ, MAP_SHARED, file.get(), 0);
    if (mapped == MAP_FAILED) return std::nullopt;
    const auto view = copy(*static_cast<const StatsPage::Memory*>(mapped));
    ::munmap(mapped, sizeof(StatsPage::Memory));
    return view;
  }

 private:
  static std::optional<StatsView> copy(const StatsPage::Memory& memory) {
    if (memory.magic.load(std::memory_order_acquire) != kMagic) return std::nullopt;
    const std::uint64_t progress = memory.progress.load(std::memory_order_relaxed);
    for (int i = 0; i < kTriesMax; ++i) {
      const std::uint64_t before = memory.sequence.load(std::memory_order_acquire);
      PageWords words;
      std::ranges::transform(memory.words, words.begin(),
                             [](const auto& word) { return word.load(std::memory_order_acquire); });
      if (before % 2 == 0 && memory.sequence.load(std::memory_order_relaxed) == before) {
        return StatsView{
            std::bit_cast<Stats>(words),
            {progress >> kShareBits, static_cast<std::uint32_t>(progress & ((std::uint64_t{1} << kShareBits) - 1))}};
      }
    }
    return std::nullopt;
  }
};

Result<StatsPage> StatsPage::create(const std::string& directory, const std::string& name) {
  if (const Status made = make_directory(directory); !made) return std::unexpected(made.error());
  remove_dead(directory);
  std::string path = directory + "/" + name;
  ::unlink(path.c_str());  // left by an earlier process with the same id
  const Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!file || ::ftruncate(file.get(), sizeof(Memory)) != 0) {
    return fail(Fault::kMisuse, fmt::format("no file '{}': {}", path, std::generic_category().message(errno)));
  }
  void* const mapped = ::mmap(nullptr, sizeof(Memory), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (mapped == MAP_FAILED) {
    ::unlink(path.c_str());
    return fail(Fault::kMisuse, fmt::format("'{}' is not mapped: {}", path, std::generic_category().message(errno)));
  }
  StatsPage page(std::move(path), new (mapped) Memory{});
  Stats nothing_yet;
  nothing_yet.process = static_cast<std::uint64_t>(::getpid());
  page.publish(nothing_yet);
  page.memory_->magic.store(kMagic, std::memory_order_release);
  return page;
}

StatsPage::~StatsPage() {
  if (memory_ == nullptr) return;
  ::munmap(memory_, sizeof(Memory));
  ::unlink(path_.c_str());
}

void StatsPage::set_reached(const Reached& reached) {
  memory_->progress.store(reached.operation << kShareBits | reached.share_ppm, std::memory_order_relaxed);
}

void StatsPage::publish(const Stats& stats) {
  const auto words = std::bit_cast<PageWords>(stats);
  memory_->sequence.fetch_add(1, std::memory_order_relaxed);
  for (std::size_t i = 0; i < words.size(); ++i) memory_->words[i].store(words[i], std::memory_order_release);
  memory_->sequence.fetch_add(1, std::memory_order_release);
}

std::vector<StatsView> read_stats(const std::string& directory) {
  std::vector<StatsView> views;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(directory, error)) {
    if (!entry.is_regular_file(error)) continue;
    const auto view = StatsReader::read(entry.path().string());
    if (!view) continue;
    if (lives(view->stats.process)) {
      views.push_back(*view);
    } else {
      fs::remove(entry.path(), error);
    }
  }
  std::ranges::sort(views, {}, [](const StatsView& view) {
    return std::tuple(view.stats.server, view.stats.rank, view.stats.process);
  });
  return views;
}

}  // namespace r2ccl
