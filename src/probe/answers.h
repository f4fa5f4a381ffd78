// What debug code asks in the middle of a run, answered from the recording's symbols.
#pragma once
#include "replay/debug_questions.h"
#include "session/session.h"

namespace backstep::probe {

// For the lifetime of the session. Taps of the log are not yet moments in its answers.
replayer::DebugAnswers answers(session::Session& session);

}  // namespace backstep::probe
