// Answers as JSON, in full, so that one process can hand them to another and nothing is lost on the way
// (several.cc). What users see is made of them elsewhere.
#pragma once
#include <nlohmann/json.hpp>

#include "session/assertions.h"
#include "session/call_tree.h"
#include "session/coverage.h"
#include "session/profile.h"
#include "session/session.h"

namespace backstep::session {

using AnswerJson = nlohmann::ordered_json;

void to_json(AnswerJson& json, const Count& count);
void from_json(const AnswerJson& json, Count& count);
void to_json(AnswerJson& json, const StackFrame& frame);
void from_json(const AnswerJson& json, StackFrame& frame);
void to_json(AnswerJson& json, const Hit& hit);
void from_json(const AnswerJson& json, Hit& hit);
void to_json(AnswerJson& json, const CallWithTree& call);
void from_json(const AnswerJson& json, CallWithTree& call);
void to_json(AnswerJson& json, const Profile& profile);
void from_json(const AnswerJson& json, Profile& profile);
void to_json(AnswerJson& json, const Verdict& verdict);
void from_json(const AnswerJson& json, Verdict& verdict);
void to_json(AnswerJson& json, const Coverage& coverage);
void from_json(const AnswerJson& json, Coverage& coverage);

}  // namespace backstep::session
