// What tables have in common whose rows are found by replaying: a sweep of the session, over the ticks that
// the query allows, as rows that SQLite asks for one after the other.
#pragma once
#include "trace/pull.h"
#include "trace/table.h"

namespace backstep::trace {

inline constexpr Column kReplayedProcess{
    "process", "INT", kEqual,
    "which one is replayed; if nothing is said, the one that the whole query is about"};

using RowPull = Pull<Row>;

// How a sweep that fills `pull` tells of itself.
session::Watcher watcher_of(History& history, RowPull& pull);

// The part of one process.
using Part = void (*)(History& history, const Question& question, RowPull& pull, uint64_t process);
std::unique_ptr<Rows> swept(History& history, const Question& asked, Part part);

// The ticks [low, high] of a process as a stretch; nullopt: it has none of them.
std::optional<session::Stretch> stretch_of(session::Session& session, const Question::Range& ticks);

Cost cost_of_sweep(History& history, const Question& question);
std::string explain_sweep(History& history, const Question& question);

}  // namespace backstep::trace
