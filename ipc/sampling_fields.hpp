#pragma once

#include "ipc/json_reader.hpp"
#include "model/sampler/sampling_params.hpp"

namespace kvern::ipc {

/// The sampling parameters of a request; what it leaves out keeps the daemon's default. Wrong fields are recorded in
/// `body`. `vocab` bounds the token ids of logit_bias.
sampling_params read_sampling(fields& body, std::int64_t vocab);

}  // namespace kvern::ipc
