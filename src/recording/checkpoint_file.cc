// Checkpoints on disk.
//
//   header | frame … | body          frame: up to 64 pages, compressed; body: all the rest, compressed
//
// The file is written under another name and renamed when it is complete, so there are no half ones. The
// header is small and says where it belongs: listing a hundred checkpoints reads a hundred times 136 bytes.
// The body and each frame carry a checksum that is looked at when they are used.
//
// Sharing is by place and content: a page whose hash is that of the page at the same address in the
// checkpoint before is not written again, only named. Unchanged memory makes long runs, so a checkpoint costs
// what the program has changed since the last one, and a table of some bytes per run.
#include "recording/checkpoint_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>

#include "base/build_id.h"
#include "base/error.h"
#include "base/version.h"
#include "recording/format.h"
#include "recording/log_parts.h"
#include "recording/shared_folder.h"

namespace backstep::recording {
namespace {

namespace fs = std::filesystem;

constexpr int kLevel = 1;  // of compression: the writer shares the machine with the replay
constexpr char kTemporary[] = ".new-";
constexpr uint64_t kSaneBody = 1ull << 32;

constexpr std::string_view kOtherBuild = "another build of Backstep made it";

// Two builds of a version may not mean the same by a state.
uint64_t program_identity() {
  const std::string_view id = build_id().empty() ? std::string_view(kVersion) : build_id();
  return XXH3_64bits(id.data(), id.size());
}

PageHash hash_of(const uint8_t* page) {
  const XXH128_hash_t h = XXH3_128bits(page, kPageSize);
  return {h.low64, h.high64};
}

void put(std::vector<uint8_t>& out, uint64_t value) {
  auto* p = reinterpret_cast<const uint8_t*>(&value);
  out.insert(out.end(), p, p + sizeof value);
}

// Numbers of a body; running out of bytes is damage.
struct Numbers {
  std::span<const uint8_t> rest;
  bool ok = true;
  uint64_t next() {
    uint64_t value = 0;
    if (rest.size() < sizeof value) {
      ok = false;
      return 0;
    }
    std::memcpy(&value, rest.data(), sizeof value);
    rest = rest.subspan(sizeof value);
    return value;
  }
  // A count of things of at least `each` bytes.
  uint64_t count(uint64_t each) {
    const uint64_t n = next();
    if (n > rest.size() / each) ok = false;
    return ok ? n : 0;
  }
};

// 0: not the name of a checkpoint of that process.
uint64_t number_of(const std::string& name, uint64_t process) {
  const std::string prefix = fmt::format("process-{}-", process), suffix = ".checkpoint";
  if (!name.starts_with(prefix) || !name.ends_with(suffix) || name.size() <= prefix.size() + suffix.size())
    return 0;
  uint64_t number = 0;
  const char* last = name.data() + name.size() - suffix.size();
  auto [end, err] = std::from_chars(name.data() + prefix.size(), last, number);
  return err == std::errc() && end == last ? number : 0;
}

// What makes a log this one: its header has the process id, the first chunk the time of day.
uint64_t identity_of_log(const std::string& path) {
  struct {
    FileHeader file;
    ChunkHeader chunk;
  } bytes{};
  Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd || pread(fd.get(), &bytes.file, sizeof bytes.file, 0) != sizeof bytes.file)
    throw Error(fmt::format("cannot read the log {}: {}", path, errno_text(errno)));
  read_first_chunk(fd.get(), bytes.file.header_size, bytes.chunk);
  // These change while the recorder is at work, and when it closes the chunk.
  bytes.chunk.state = 0;
  bytes.chunk.capacity = bytes.chunk.header_crc = 0;
  return XXH3_64bits(&bytes, sizeof bytes);
}

}  // namespace

// --- reading ---

CheckpointFile::CheckpointFile(std::string path, uint64_t log_identity) : path_(std::move(path)) {
  Fd fd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat st {};
  if (!fd || fstat(fd.get(), &st) != 0)
    throw Error(fmt::format("cannot open the checkpoint {}: {}", path_, errno_text(errno)));
  const auto size = static_cast<size_t>(st.st_size);
  if (size < sizeof header_) damaged("it is too short");
  void* p = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (p == MAP_FAILED) throw Error(fmt::format("cannot map the checkpoint {}: {}", path_, errno_text(errno)));
  data_ = {static_cast<const uint8_t*>(p), size};
  std::memcpy(&header_, p, sizeof header_);
  std::string wrong;
  if (std::memcmp(header_.magic, kCheckpointMagic, sizeof header_.magic) != 0) {
    wrong = "it is no checkpoint, or damaged";
  } else if (header_.version != kCheckpointVersion || header_.header_size != sizeof header_) {
    wrong = fmt::format("it has version {}, not {}", header_.version, kCheckpointVersion);
  } else if (header_.check != XXH3_64bits(&header_, offsetof(CheckpointHeader, check))) {
    wrong = "it is damaged";
  } else if (header_.program != program_identity()) {
    wrong = kOtherBuild;
  } else if (header_.log != log_identity) {
    wrong = "it belongs to another recording";
  } else if (header_.body_offset < sizeof header_ || header_.body_offset > size ||
             header_.body_size != size - header_.body_offset || header_.body_raw_size > kSaneBody) {
    wrong = "it is damaged: it has not the size that it should have";
  }
  if (wrong.empty()) return;
  munmap(p, size);
  data_ = {};
  damaged(wrong);
}

CheckpointFile::~CheckpointFile() {
  if (!data_.empty()) munmap(const_cast<uint8_t*>(data_.data()), data_.size());
}

void CheckpointFile::damaged(const std::string& what) const {
  throw Error(fmt::format("the checkpoint {} is not used: {}", fs::path(path_).filename().string(), what));
}

void CheckpointFile::read_body() {
  if (parsed_) return;
  const auto packed = data_.subspan(header_.body_offset, header_.body_size);
  if (XXH3_64bits(packed.data(), packed.size()) != header_.body_check) damaged("it is damaged");
  body_.resize(header_.body_raw_size);
  if (ZSTD_decompress(body_.data(), body_.size(), packed.data(), packed.size()) != body_.size())
    damaged("it is damaged: it cannot be decompressed");
  Numbers in{body_};
  const uint64_t length = in.count(1);
  state_ = in.rest.first(length);
  in.rest = in.rest.subspan(length);
  frames_.resize(in.count(24));
  for (Frame& f : frames_) {
    f.offset = in.next(), f.size = in.next(), f.check = in.next();
    if (f.offset < sizeof header_ || f.offset > header_.body_offset ||
        f.size > header_.body_offset - f.offset)
      in.ok = false;
  }
  hashes_.resize(in.count(16));
  for (PageHash& h : hashes_) h[0] = in.next(), h[1] = in.next();
  runs_.resize(in.count(40));
  for (PageRun& r : runs_)
    r.space = in.next(), r.address = in.next(), r.count = in.next(), r.file = in.next(), r.index = in.next();
  if (in.next()) {
    written_.emplace();
    written_->tick = in.next(), written_->event = in.next(), written_->pc = in.next();
    written_->ranges.resize(in.count(16));
    for (AddressRange& r : written_->ranges) r.start = in.next(), r.end = in.next();
    written_->code_known = in.next() != 0;
    written_->code.resize(in.count(16));
    for (AddressRange& r : written_->code) r.start = in.next(), r.end = in.next();
  }
  if (!in.ok || !in.rest.empty() || hashes_.size() != header_.stored_pages ||
      frames_.size() != (hashes_.size() + kPagesPerFrame - 1) / kPagesPerFrame)
    damaged("it is damaged: its tables make no sense");
  parsed_ = true;
}

std::span<const uint8_t> CheckpointFile::state() {
  read_body();
  return state_;
}

const std::vector<PageRun>& CheckpointFile::runs() {
  read_body();
  return runs_;
}

const std::vector<PageHash>& CheckpointFile::hashes() {
  read_body();
  return hashes_;
}

const std::optional<Written>& CheckpointFile::written() {
  read_body();
  return written_;
}

const uint8_t* CheckpointFile::page(uint64_t index) {
  read_body();
  if (index >= hashes_.size()) damaged("it lacks a page that another one needs");
  const uint64_t number = index / kPagesPerFrame;
  if (number != frame_number_) {
    const Frame& f = frames_[number];
    const uint64_t pages = std::min(kPagesPerFrame, hashes_.size() - number * kPagesPerFrame);
    frame_.resize(kPagesPerFrame * kPageSize);
    frame_number_ = ~0ull;
    if (XXH3_64bits(data_.data() + f.offset, f.size) != f.check ||
        ZSTD_decompress(frame_.data(), frame_.size(), data_.data() + f.offset, f.size) != pages * kPageSize)
      damaged("it is damaged");
    frame_number_ = number;
  }
  return frame_.data() + index % kPagesPerFrame * kPageSize;
}

void CheckpointFile::verify() {
  read_body();
  for (uint64_t i = 0; i < hashes_.size(); i++)
    if (hash_of(page(i)) != hashes_[i]) damaged("it is damaged: a page is not what it was");
}

// --- the folder ---

CheckpointFolder::CheckpointFolder(const Recording& recording, uint64_t process)
    : dir_(fs::absolute(dir(recording))),
      process_(process),
      log_identity_(identity_of_log(recording.log_path(process))) {}

std::string CheckpointFolder::path(uint64_t number) const {
  return fmt::format("{}/process-{}-{}.checkpoint", dir_, process_, number);
}

std::vector<CheckpointFolder::Entry> CheckpointFolder::list(std::vector<std::string>* notes) const {
  std::vector<Entry> found;
  size_t of_others = 0;
  std::error_code ec;
  for (const auto& file : fs::directory_iterator(dir_, ec)) {
    const uint64_t number = number_of(file.path().filename().string(), process_);
    if (!number) continue;
    try {
      CheckpointFile checkpoint(file.path(), log_identity_);
      if (checkpoint.header().process != process_ || checkpoint.header().number != number)
        throw Error(fmt::format("the checkpoint {} is not used: it had another name",
                                file.path().filename().string()));
      found.push_back({number, checkpoint.header(), checkpoint.size()});
    } catch (const Error& e) {
      if (std::string_view(e.what()).ends_with(kOtherBuild))
        of_others++;
      else if (notes)
        notes->push_back(e.what());
    }
  }
  // As a rule it is all of them, or none: one line for all.
  if (of_others && notes)
    notes->push_back(
        of_others == 1
            ? "one checkpoint is not used: another build of Backstep made it"
            : fmt::format("{} checkpoints are not used: another build of Backstep made them", of_others));
  auto when = [](const Entry& e) { return std::tuple(e.header.tick, e.header.event, e.header.pc, e.number); };
  std::sort(found.begin(), found.end(), [&](const Entry& a, const Entry& b) { return when(a) < when(b); });
  return found;
}

CheckpointFile& CheckpointFolder::open(uint64_t number) {
  auto& file = files_[number];
  if (!file) file = std::make_unique<CheckpointFile>(path(number), log_identity_);
  return *file;
}

std::optional<Fd> CheckpointFolder::lock(bool wait) const {
  if (!make_shared_folder(dir_))
    throw Error(fmt::format("cannot make the folder {}: {}", dir_, errno_text(errno)));
  Fd fd(make_shared_file(dir_ + "/lock", O_RDWR | O_CLOEXEC));
  if (!fd) throw Error(fmt::format("cannot write to {}: {}", dir_, errno_text(errno)));
  if (flock(fd.get(), wait ? LOCK_EX : LOCK_EX | LOCK_NB) != 0) return std::nullopt;
  // What writers that were killed have left.
  std::error_code ec;
  for (const auto& file : fs::directory_iterator(dir_, ec))
    if (file.path().filename().string().starts_with(kTemporary)) unlink(file.path().c_str());
  return fd;
}

uint64_t CheckpointFolder::free_number() const {
  uint64_t last = 0;
  std::error_code ec;
  for (const auto& file : fs::directory_iterator(dir_, ec))
    last = std::max(last, number_of(file.path().filename().string(), process_));
  return last + 1;
}

void CheckpointFolder::remove(uint64_t number) {
  files_.erase(number);
  unlink(path(number).c_str());
}

uint64_t CheckpointFolder::disk(const Recording& recording) {
  return folder_size(dir(recording));
}

size_t CheckpointFolder::count(const Recording& recording) {
  size_t n = 0;
  std::error_code ec;
  for (const auto& file : fs::directory_iterator(dir(recording), ec))
    n += file.path().extension() == ".checkpoint";
  return n;
}

size_t CheckpointFolder::count_recorded(const Recording& recording) {
  size_t n = 0;
  for (uint64_t process : processes(recording)) {
    try {
      for (const Entry& e : CheckpointFolder(recording, process).list(nullptr))
        n += e.header.maker == static_cast<uint64_t>(Maker::Record);
    } catch (const Error&) {
      // Its log is not there any more: then they are of no use.
    }
  }
  return n;
}

std::set<uint64_t> CheckpointFolder::processes(const Recording& recording) {
  std::set<uint64_t> found;
  std::error_code ec;
  for (const auto& file : fs::directory_iterator(dir(recording), ec)) {
    const std::string name = file.path().filename().string();
    uint64_t process = 0;
    if (!name.starts_with("process-")) continue;
    std::from_chars(name.data() + 8, name.data() + name.size(), process);
    if (process && number_of(name, process)) found.insert(process);
  }
  return found;
}

uint64_t CheckpointFolder::remove(const Recording& recording) {
  return remove_folder(dir(recording));
}

// --- writing ---

CheckpointWriter::CheckpointWriter(CheckpointFolder& folder, uint64_t number, uint64_t earlier, uint64_t most)
    : folder_(folder),
      number_(number),
      most_(most),
      temporary_(fmt::format("{}/{}{}", folder.dir(), kTemporary, getpid())) {
  if (earlier) earlier_ = &folder_.open(earlier).runs();
  fd_ = Fd(make_file(temporary_, O_RDWR | O_TRUNC | O_CLOEXEC));
  if (!fd_) throw Error(fmt::format("cannot write {}: {}", temporary_, errno_text(errno)));
  buffer_.reserve(kPagesPerFrame * kPageSize);
  packed_.resize(ZSTD_compressBound(kPagesPerFrame * kPageSize));
}

CheckpointWriter::~CheckpointWriter() {
  if (fd_) unlink(temporary_.c_str());
}

void CheckpointWriter::write(const void* bytes, size_t n) {
  auto* p = static_cast<const char*>(bytes);
  too_large_ = offset_ > most_ || n > most_ - offset_;
  if (too_large_) throw Error("a checkpoint would take more disk space than there is for checkpoints");
  while (n > 0) {
    const ssize_t done = pwrite(fd_.get(), p, n, static_cast<off_t>(offset_));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0)
      throw Error(fmt::format("cannot write a checkpoint to {}: {}", folder_.dir(), errno_text(errno)));
    p += done, n -= static_cast<size_t>(done), offset_ += static_cast<uint64_t>(done);
  }
}

void CheckpointWriter::flush_frame() {
  if (buffer_.empty()) return;
  const size_t n = ZSTD_compress(packed_.data(), packed_.size(), buffer_.data(), buffer_.size(), kLevel);
  if (ZSTD_isError(n)) throw Error(fmt::format("cannot compress a checkpoint: {}", ZSTD_getErrorName(n)));
  frames_.insert(frames_.end(), {offset_, n, XXH3_64bits(packed_.data(), n)});
  write(packed_.data(), n);
  buffer_.clear();
}

void CheckpointWriter::add_to_runs(uint64_t space, uint64_t address, uint64_t file, uint64_t index) {
  pages_++;
  if (!runs_.empty()) {
    PageRun& last = runs_.back();
    if (last.space == space && last.address + last.count * kPageSize == address && last.file == file &&
        last.index + last.count == index) {
      last.count++;
      return;
    }
  }
  runs_.push_back({space, address, 1, file, index});
}

void CheckpointWriter::page(uint64_t space, uint64_t address, const uint8_t* bytes) {
  const PageHash hash = hash_of(bytes);
  if (earlier_) {
    auto ends_before = [&](const PageRun& r) {
      return r.space < space || (r.space == space && r.address + r.count * kPageSize <= address);
    };
    while (cursor_ < earlier_->size() && ends_before((*earlier_)[cursor_])) cursor_++;
    if (cursor_ < earlier_->size()) {
      const PageRun& r = (*earlier_)[cursor_];
      if (r.space == space && r.address <= address) {
        const uint64_t index = r.index + (address - r.address) / kPageSize;
        const auto& known = folder_.open(r.file).hashes();
        if (index < known.size() && known[index] == hash) return add_to_runs(space, address, r.file, index);
      }
    }
  }
  add_to_runs(space, address, number_, hashes_.size());
  hashes_.push_back(hash);
  buffer_.insert(buffer_.end(), bytes, bytes + kPageSize);
  if (buffer_.size() == kPagesPerFrame * kPageSize) flush_frame();
}

uint64_t CheckpointWriter::finish(uint64_t tick, uint64_t event, uint64_t pc, Maker maker,
                                  std::span<const uint8_t> state, const std::optional<Written>& written) {
  flush_frame();
  std::vector<uint8_t> body;
  put(body, state.size());
  body.insert(body.end(), state.begin(), state.end());
  put(body, frames_.size() / 3);
  for (uint64_t n : frames_) put(body, n);
  put(body, hashes_.size());
  for (const PageHash& h : hashes_) put(body, h[0]), put(body, h[1]);
  put(body, runs_.size());
  for (const PageRun& r : runs_)
    for (uint64_t n : {r.space, r.address, r.count, r.file, r.index}) put(body, n);
  put(body, written.has_value());
  if (written) {
    for (uint64_t n : {written->tick, written->event, written->pc, written->ranges.size()}) put(body, n);
    for (const AddressRange& r : written->ranges) put(body, r.start), put(body, r.end);
    put(body, written->code_known);
    put(body, written->code.size());
    for (const AddressRange& r : written->code) put(body, r.start), put(body, r.end);
  }
  std::vector<uint8_t> packed(ZSTD_compressBound(body.size()));
  const size_t n = ZSTD_compress(packed.data(), packed.size(), body.data(), body.size(), kLevel);
  if (ZSTD_isError(n)) throw Error(fmt::format("cannot compress a checkpoint: {}", ZSTD_getErrorName(n)));

  CheckpointHeader header{};
  std::memcpy(header.magic, kCheckpointMagic, sizeof header.magic);
  header.version = kCheckpointVersion;
  header.header_size = sizeof header;
  header.process = folder_.process();
  header.number = number_;
  header.tick = tick, header.event = event, header.pc = pc;
  header.program = program_identity();
  header.log = folder_.log_identity();
  header.body_offset = offset_;
  header.body_size = n;
  header.body_raw_size = body.size();
  header.body_check = XXH3_64bits(packed.data(), n);
  header.stored_pages = hashes_.size();
  header.pages = pages_;
  header.maker = static_cast<uint64_t>(maker);
  header.check = XXH3_64bits(&header, offsetof(CheckpointHeader, check));
  write(packed.data(), n);
  const uint64_t size = offset_;
  offset_ = 0;
  write(&header, sizeof header);
  const std::string name = folder_.path(number_);
  // Not waiting for the disk: what a power failure leaves of it is noticed by its checksums.
  if (rename(temporary_.c_str(), name.c_str()) != 0)
    throw Error(fmt::format("cannot write the checkpoint {}: {}", name, errno_text(errno)));
  fd_.reset();
  return size;
}

}  // namespace backstep::recording
