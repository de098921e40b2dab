#pragma once
// A callable that somebody else owns, for a function that calls it and is done with it before it returns. Unlike
// std::function it never allocates, so it may stand on the path of a call. It must not outlive the callable.

#include <memory>
#include <type_traits>
#include <utility>

namespace r2ccl {

template <class Signature>
class FunctionRef;

template <class Result, class... Arguments>
class FunctionRef<Result(Arguments...)> final {
 public:
  template <class Callable>
    requires(!std::is_same_v<std::remove_cvref_t<Callable>, FunctionRef> &&
             std::is_invocable_r_v<Result, Callable&, Arguments...>)
  FunctionRef(Callable&& callable)  // NOLINT(google-explicit-constructor): a lambda in place is the point
      : callable_(const_cast<void*>(static_cast<const void*>(std::addressof(callable)))),
        call_([](void* known, Arguments... arguments) -> Result {
          return (*static_cast<std::remove_reference_t<Callable>*>(known))(std::forward<Arguments>(arguments)...);
        }) {}

  Result operator()(Arguments... arguments) const { return call_(callable_, std::forward<Arguments>(arguments)...); }

 private:
  void* callable_;
  Result (*call_)(void*, Arguments...);
};

}  // namespace r2ccl
