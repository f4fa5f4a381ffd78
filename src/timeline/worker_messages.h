// How controller and worker put what they say to each other into messages (message.h), and send them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/fd.h"
#include "recording/checkpoint_file.h"
#include "replay/debug_questions.h"
#include "replay/taps.h"
#include "timeline/message.h"

namespace backstep::timeline {

// Over a socket, with a descriptor if there is one. False: the other end is gone.
bool send_message(int socket, const std::vector<uint8_t>& bytes, int fd = -1);
// Empty: the other end is gone.
std::vector<uint8_t> receive_message(int socket, Fd* fd = nullptr);

void pack(Packer& p, const replayer::Taps& taps);
replayer::Taps unpack_taps(Unpacker& u);
void pack(Packer& p, const std::optional<recording::Written>& written);
std::optional<recording::Written> unpack_written(Unpacker& u);
void pack(Packer& p, const replayer::DebugAnswer& answer);
replayer::DebugAnswer unpack_answer(Unpacker& u);

// What is too long for a message goes through a memory file. All throw Error.
Fd new_file();
void hand_over(const Fd& file, const void* data, size_t size);
void take_over(const Fd& file, void* data, size_t size);

inline constexpr uint64_t kCountsInMessage = kMaxMessage / 2 / sizeof(replayer::TapCount);

}  // namespace backstep::timeline
