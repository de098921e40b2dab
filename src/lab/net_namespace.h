#pragma once
// Network namespaces that files beneath /run/netns keep, so that `ip netns` sees them too.
//
// Threads  Namespaces belong to threads: the caller's process has one thread. Everything needs root.

#include <functional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "base/time.h"

namespace r2ccl::lab {

inline constexpr Duration kProcessEndMax = 5s;

bool namespace_exists(const std::string& name);
// Refuses a name that is taken.
Status make_namespace(const std::string& name);
Result<Fd> open_namespace(const std::string& name);
// False: some other file, which a maker that died early has left.
bool is_namespace(const Fd& file);
// One that is not there is fine. What still holds it (processes, open files) keeps what is in it.
Status remove_namespace(const std::string& name);

// Runs the body inside and comes back.
Status inside(const Fd& name_space, const std::function<Status()>& body);
// This process stays inside, with a /sys of its own that shows the namespace's interfaces. `hosts`: what /etc/hosts
// says to it and to nobody else; empty: what it says outside.
Status move_into(const Fd& name_space, const std::string& hosts = "");

// Kills every process that is inside and waits for their end, kProcessEndMax at most.
Status end_processes(const Fd& name_space);

}  // namespace r2ccl::lab
