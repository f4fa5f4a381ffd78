// The commands of the event database as one writes them, and arguments of static probes as expressions.
#include <gtest/gtest.h>

#include "base/error.h"
#include "cluster/event_request.h"
#include "symbols/static_probes.h"

namespace backstep {
namespace {

using cluster::EventRequest;
using cluster::parse_event_request;

TEST(EventRequest, HasTheWordsOfTheThesis) {
  const EventRequest r = parse_event_request("record A/server:3 balance assignment-to-variables");
  EXPECT_EQ(r.verb, EventRequest::Record);
  EXPECT_EQ(r.who, "A/server");
  EXPECT_EQ(r.thread, 3);
  EXPECT_EQ(r.name, "balance");
  EXPECT_EQ(r.kind, cluster::kAssignment);
  EXPECT_TRUE(r.local);
  EXPECT_FALSE(parse_event_request("record * create-task").local);
  EXPECT_EQ(parse_event_request("record * create-task").kind, "process-begins");
  EXPECT_EQ(parse_event_request("record * lease user-event-end").kind, cluster::kUserEventEnded);
  EXPECT_EQ(parse_event_request("forget A/* port-set-create").verb, EventRequest::Forget);
}

TEST(EventRequest, TakesNamesWithSpacesAndAnyOtherEvent) {
  const EventRequest r = parse_event_request("record *  tcp A/client -> B/server:80 #3  message-reception");
  EXPECT_EQ(r.name, "tcp A/client -> B/server:80 #3");
  const EventRequest any = parse_event_request("record B/x call handle if n > 3");
  EXPECT_EQ(any.kind, cluster::kAnyEvent);
  EXPECT_EQ(any.name, "call handle if n > 3");
  EXPECT_EQ(any.thread, std::nullopt);
}

TEST(EventRequest, RefusesWhatSaysTooLittle) {
  for (const char* text :
       {"record", "record *", "forget", "records * user-event", "record * reaching-a-label"})
    EXPECT_THROW(parse_event_request(text), Error) << text;
  EXPECT_NO_THROW(parse_event_request("forget * reaching-a-label"));
}

TEST(StaticProbe, HasArgumentsAsExpressions) {
  const std::pair<const char*, const char*> all[] = {
      {"-4@%eax", "(int)$eax"},
      {"8@$-5", "(unsigned long)-5"},
      {"-8@-24(%rbp)", "*(long*)((long)$rbp + (-24))"},
      {"2@(%rax)", "*(unsigned short*)((long)$rax)"},
      {"1@8(%rax,%rbx,4)", "*(unsigned char*)((long)$rax + (long)$rbx * 4 + 8)"},
      {"8f@%xmm0", ""},
      {"4@x(%rip)", ""},
      {"-4@", ""},
      {"@%eax", ""},
      {"-4@$", ""},
      {"-4@%e;x", ""},
      {"4@8(%rax,%rbx,3)", ""},
      {"4@8()", ""}};
  for (const auto& [operand, expression] : all)
    EXPECT_EQ(symbols::probe_argument(operand), expression) << operand;
}

}  // namespace
}  // namespace backstep
