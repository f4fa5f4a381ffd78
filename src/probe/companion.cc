#include "probe/companion.h"

#include <memory>
#include <utility>

#include "engine/layout.h"
#include "probe/answers.h"
#include "probe/run.h"

namespace backstep::probe {

Companion::Companion(session::Session& session, const CompanionCode& code)
    : built_(build(session, {code.snippets, code.sources, layout::kProbe, folder_.path()})),
      image_(session.timeline().log().image()),
      keep_(code.keep) {}

bool Companion::fits(const session::Session& session) const {
  return session.timeline().log().image() == image_;
}

void Companion::go_along(session::Session& session, bool output,
                         std::function<void(const Note&)> tell) const {
  auto reader = std::make_shared<NoteReader>(session, built_.module);
  session.timeline().run_debug(
      {.module = built_.module.elf_path,
       .places = places_of(built_.module),
       .answers = answers(session),
       .tell_output = output,
       .tell = [reader, tell = std::move(tell)](const replayer::TapRecord& record,
                                                const uint8_t* bytes) { tell(reader->read(record, bytes)); },
       .keep = keep_});
}

}  // namespace backstep::probe
