#pragma once
// Work that makes communicators or ends them. It is done in phases: in each one all jobs of a group are begun before
// the first is waited for, so one thread can hold several ranks that wait for each other.
//
// Threads    The jobs of a group run on one thread: the caller's where they block, else one in the background.
// Failure    A job that failed takes no part in later phases; the others go on.

#include <memory>
#include <vector>

#include "bindings/nccl/entry/outcome.h"
#include "bindings/nccl/member.h"

namespace r2ccl::bindings {

class Job {
 public:
  virtual ~Job() = default;

  virtual int phases() const = 0;
  virtual Outcome begin(int phase) = 0;
  virtual Outcome finish(int phase) = 0;
  // The members it is about: their state is ncclInProgress while a non-blocking job runs. The first one is told of its
  // failure.
  virtual std::vector<MemberPtr> members() const = 0;
  virtual bool blocking() const = 0;
  // It failed while the caller waited, or was never begun: takes back what the caller was given.
  virtual void cancel() {}
};

// Blocking jobs are done when it returns. Others go on in the background: ncclInProgress. A mixture is misuse.
Outcome run_jobs(std::vector<std::unique_ptr<Job>> jobs);

}  // namespace r2ccl::bindings
