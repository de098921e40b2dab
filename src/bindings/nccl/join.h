#pragma once
// How a member becomes a rank of a communicator, and how it ceases to be one.

#include <nccl.h>

#include <memory>

#include "bindings/nccl/phased_work.h"
#include "control/unique_id.h"

namespace r2ccl::bindings {

// The two halves of a join, for jobs that end with one. The first gives the member its identity.
Outcome begin_join(const MemberPtr& member, const UniqueId& id, std::uint32_t rank, std::uint32_t size);
Outcome finish_join(const MemberPtr& member);

// For a member whose handle is gone: waits for what runs and says goodbye to the other ranks.
void say_farewell(const MemberPtr& member);

// A job whose result is a communicator: the caller gets its handle at once and loses it when the job fails in front of
// it.
class MakingJob : public Job {
 public:
  // A null `out`: no communicator comes of it.
  MakingJob(ncclComm_t* out, MemberConfig config);
  bool blocking() const override { return member_->config.blocking; }
  void cancel() override;

 protected:
  const MemberPtr member_;

 private:
  ncclComm_t* const out_;
};

}  // namespace r2ccl::bindings
