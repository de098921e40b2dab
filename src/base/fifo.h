#pragma once
// A queue in one piece of memory that is used again. Unlike std::deque it allocates nothing once it is large
// enough, and finds an element by one addition. But it moves its elements when it grows, so references to them do
// not last.
//
// T has a default value. An element that leaves is set to it, so that what it owned is freed at once.

#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

namespace r2ccl {

template <class T>
class Fifo final {
 public:
  template <class Queue, class Element>
  class Walk {
   public:
    using value_type = T;
    using difference_type = std::ptrdiff_t;
    Walk() = default;
    Walk(Queue* queue, std::size_t index) : queue_(queue), index_(index) {}
    Element& operator*() const { return (*queue_)[index_]; }
    Walk& operator++() {
      ++index_;
      return *this;
    }
    Walk operator++(int) { return std::exchange(*this, Walk(queue_, index_ + 1)); }
    friend bool operator==(const Walk&, const Walk&) = default;

   private:
    Queue* queue_ = nullptr;
    std::size_t index_ = 0;
  };

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  T& operator[](std::size_t index) { return slots_[(first_ + index) & (slots_.size() - 1)]; }
  const T& operator[](std::size_t index) const { return slots_[(first_ + index) & (slots_.size() - 1)]; }
  T& front() { return slots_[first_]; }
  const T& front() const { return slots_[first_]; }
  auto begin() { return Walk<Fifo, T>(this, 0); }
  auto end() { return Walk<Fifo, T>(this, size_); }
  auto begin() const { return Walk<const Fifo, const T>(this, 0); }
  auto end() const { return Walk<const Fifo, const T>(this, size_); }

  T& emplace_back() {
    if (size_ == slots_.size()) grow();
    return (*this)[size_++];
  }
  void pop_front() {
    slots_[first_] = T{};
    first_ = (first_ + 1) & (slots_.size() - 1);
    --size_;
  }
  void clear() {
    while (!empty()) pop_front();
  }

 private:
  static constexpr std::size_t kLeast = 4;

  void grow() {
    std::vector<T> larger(slots_.empty() ? kLeast : 2 * slots_.size());
    for (std::size_t i = 0; i < size_; ++i) larger[i] = std::move((*this)[i]);
    slots_ = std::move(larger);
    first_ = 0;
  }

  std::vector<T> slots_;  // their number is a power of two
  std::size_t first_ = 0;
  std::size_t size_ = 0;
};

static_assert(std::forward_iterator<Fifo<int>::Walk<Fifo<int>, int>>);

}  // namespace r2ccl
