#pragma once
// Network namespaces that files beneath /run/netns keep, so that `ip netns` sees them too.
//
// Threads  The caller's process must have one thread only, because a namespace belongs to a thread. Needs root.

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
// False: it is some other file, left by a process that died while it made a namespace.
bool is_namespace(const Fd& file);
// Removes the name; one that is not there is fine. The namespace itself lives on while processes or open files hold it.
Status remove_namespace(const std::string& name);

// Runs the body inside and comes back.
Status inside(const Fd& name_space, const std::function<Status()>& body);
// This process stays inside, with a /sys of its own that shows the namespace's interfaces. `hosts`: what /etc/hosts
// says to it and to nobody else; empty: what it says outside.
Status move_into(const Fd& name_space, const std::string& hosts = "");

// Kills every process that is inside and waits for their end, kProcessEndMax at most.
Status end_processes(const Fd& name_space);

}  // namespace r2ccl::lab
