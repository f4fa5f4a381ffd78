// What tests/cases/cpp_asks.sh asks of a recording through libbackstep.  cpp_asks RECORDING
#undef NDEBUG
#include <algorithm>
#include <cassert>
#include <cmath>
#include <iostream>
#include <ranges>
#include <sstream>

#include <backstep/session.h>

using backstep::Data;

static_assert(std::ranges::input_range<backstep::Stream<backstep::Hit>>);
static_assert(!std::copy_constructible<backstep::Session> && std::movable<backstep::Session>);

namespace {

std::string sentence_of(const auto& wrong, int code) {
  try {
    wrong();
  } catch (const backstep::Error& e) {
    assert(e.code() == code);
    return e.what();
  }
  assert(!"no error");
}

void data() {
  const Data d = Data::from_json(
      R"({"n": -3, "big": 18446744073709551615, "p": "0x1f <main>", "x": 1.5, "inf": "-inf", "list": [1, "two"], "no": null,
          "gone": {"unavailable": "optimized out"}})");
  assert(d["n"] == -3 && d["n"].number() == -3 && d["n"].real() == -3 && d["n"] != 3u);
  assert(d["big"].address() == UINT64_MAX && d["big"] == UINT64_MAX && d["p"].address() == 0x1f);
  assert(d["x"].real() == 1.5 && d["inf"].real() == -INFINITY && Data(1) == Data(1.0));
  assert(d["list"].size() == 2 && d["list"][1] == "two" && d["list"].list()[0] == 1);
  assert(!d["no"].available() && !d["gone"].available() && d["n"].available() && !d.find("none"));
  assert(Data::from_json(d.json()) == d && d.structure()[1].name == "big");
  std::ostringstream out;
  out << d["list"] << d["p"];
  assert(out.str() == R"([1,"two"]0x1f <main>)");
  assert(sentence_of([&] { d["p"].number(); }, 0).find("0x1f <main>") != std::string::npos);
  for (auto wrong : {"big", "x", "list", "no"}) sentence_of([&] { d[wrong].number(); }, 0);
  sentence_of([&] { d["list"][2]; }, 0);
  sentence_of([&] { d["none"]; }, 0);
  sentence_of([&] { d["n"].address(); }, 0);
}

void questions(backstep::Session& s) {
  assert(s.count("call add") == 10 &&
         s.counts({"call add", "change total"}) == std::vector<uint64_t>({10, 11}));
  std::vector<backstep::Hit> hits;
  for (const backstep::Hit& hit : s.log("sums.c:5", {"n", "total"}, {.stack = true})) hits.push_back(hit);
  assert(hits.size() == 10 && hits[3].texts.at("total") == "6" && hits[9].values["n"].number() == 10);
  assert(hits[0].stack[0].function == "add" && hits[0].stack[1].function == "main" && hits[0].stack_complete);
  assert(s.count("call add", {.start = hits[2].at, .end = hits[5].at}) == 3);
  assert(s.log("call add", {"$arg0"}, {.last = 2}).next()->values["$arg0"] == 9);

  const backstep::Table table = s.sql("SELECT arg0, args FROM calls WHERE function = 'add'", 3);
  assert(table.columns == std::vector<std::string>({"arg0", "args"}) && table.rows.size() == 3 &&
         !table.complete);
  assert(table.rows[2][0] == 3 && table.rows[2][1] == "n=3");
  sentence_of([&] { s.sql("SELECT"); }, -32000);

  std::vector<backstep::Call> calls;
  for (const backstep::Call& call : s.calls("add")) calls.push_back(call);
  assert(calls.size() == 10 && calls[4].args[0].name == "n" && calls[4].args[0].value == 5);
  assert(calls[4].end == "returned" && calls[4].ticks && calls[4].caller.function == "main");
  assert(!s.calls("add", {.limit = 0}).next());
  const auto tree = s.calls("main", {.tree = true, .depth = 1}).next()->tree;
  assert(std::any_of(tree.begin(), tree.end(), [](auto& n) { return n.function == "add" && n.count == 10; }));

  const auto write = s.syscalls("write").next();
  assert(write && write->name == "write" && write->args["fd"] == 1 && write->ret == 3 &&
         write->error.empty());
  assert(write->args["buf"] == "26\n" && write->text.starts_with("write(1, \"26\\n\", 3)"));
  const auto failed = s.syscalls("", {.failed = true, .last = 1}).next();
  assert(failed && failed->ret == -1 && !failed->error.empty() && failed->number > 0);
  const auto totals = s.syscall_totals("write");
  assert(totals.size() == 1 && totals[0].calls == 1 && totals[0].bytes == 3 && totals[0].errors == 0);

  assert(s.profile({.period = 1000}).samples > 0 && !s.profile().stacks.empty());
  const auto coverage = s.coverage();
  assert(coverage.size() == 1 && coverage[0].file.ends_with("sums.c") && coverage[0].executed.size() > 5);
  assert(s.info().process == 1 && s.info().ticks > 0 && s.processes()[0].command[0] == "./sums");
  assert(s.use_process(1).last == s.info().last && !s.version().empty());
}

void movement(backstep::Session& s) {
  auto stream = s.log("call add", {"$arg0"});
  auto third =
      std::ranges::find_if(stream, [](const backstep::Hit& hit) { return hit.values["$arg0"] == 3; });
  const backstep::Moment m = s.go_to(third->at);
  assert(m.function == "add" && m.why == "there" && m.at == third->at && m.line == 4);
  assert(stream.next()->values["$arg0"] == 4);  // the rest has been kept
  const auto next = s.forward({"call add", "call main"});
  assert(next.why == "event" && s.value("i", 1) == 4);
  assert(s.backward({"call add"}).at == m.at && s.now().at == m.at);
  assert(s.registers().at("rip") == m.pc && s.threads().at(0).has_turn && s.threads()[0].pc == m.pc);
  assert(s.memory(m.pc, 4).size() == 4 && s.memory(8, 4).empty());
  assert(s.step(3).pc != m.pc && s.step(3, true).pc == m.pc);
  assert(s.step(3, false, m.tid).why == "step" && s.locals()[0].expression == "n");
  assert(s.stack(m.tid)[1].function == "main" && s.explain("total").type.starts_with("long"));
  const auto nowhere = s.explain("*(int*)8");
  assert(!nowhere.why.empty() && !s.value("*(int*)8").available());
  assert(s.ask("goto", {{"to", "end"}})["why"] == "there" && s.forward().why == "end");
}

void bookmarks(backstep::Session& s) {
  const auto here = s.log("call add if n == 5").next()->at;
  s.go_to(here);
  const auto mark = s.bookmark("fifth", "n is 5");
  assert(mark.name == "fifth" && mark.at == here && mark.process == 1 && mark.note == "n is 5");
  s.go_to("start");
  assert(s.go_to("fifth").at == here && s.value("n") == 5 && s.count("call add", {.start = "fifth"}) == 5);
  assert(s.bookmarks().size() == 1 && s.bookmarks()[0].at == here);
  s.remove_bookmark("fifth");
  assert(s.bookmarks().empty());
  sentence_of([&] { s.remove_bookmark("fifth"); }, -32000);
}

void steps_and_checkpoints(backstep::Session& s) {
  s.go_to(s.log("sums.c:5 if n == 7").next()->at);
  const auto here = s.checkpoint("before it is wrong");
  assert(here.checkpoint > 0 && here.at == s.now().at && here.note == "before it is wrong");
  assert(s.step("over").line == 6 && s.step("line", 1, true).line == 5 && s.now().at == here.at);
  assert(s.step("out").function == "main" && s.step("quantum").tick == here.tick + 2);
  assert(s.restart(here.checkpoint).at == here.at && s.value("n") == 7);
  assert(s.checkpoints().size() == 1 && s.checkpoints()[0].tick == here.tick);
  s.remove_checkpoint(here.checkpoint);
  assert(s.checkpoints().empty());
  sentence_of([&] { s.restart(here.checkpoint); }, -32000);
  sentence_of([&] { s.step("sideways"); }, -32602);
}

void several_processes(backstep::Session& s) {
  using backstep::Processes;
  assert(s.count("call add", {.processes = Processes::all()}) == 10);
  const auto shares = s.count_by_process("call add");
  assert(shares.size() == 1 && shares[0].process == 1 && shares[0].pid == s.info().pid);
  assert(shares[0].count == 10);
  const auto hit = s.log("call add", {"n"}, {.last = 1, .processes = {1}}).next();
  assert(hit->process == 1 && hit->pid == s.info().pid && hit->values["n"] == 10);
  assert(s.calls("add", {.processes = Processes::all()}).next()->process == 1);
  const auto profile = s.profile({.period = 100, .processes = Processes::all()});
  assert(profile.processes.at(0).program == "sums" && profile.stacks.at(0).stack.at(0) == "sums");
  assert(profile.processes[0].samples == profile.samples);
  assert(s.coverage({.processes = Processes::all()}).size() == 1);
  sentence_of([&] { s.count("call add", {.processes = {9}}); }, -32000);
  assert(s.methods().size() > 20);
}

void events_that_stay(backstep::Session& s) {
  s.go_to("start");
  std::vector<long> seen, logged;
  int inner = 0;
  s.create_event("call add", {.action =
                                  [&](const backstep::Hit& hit) {
                                    seen.push_back(hit.values["n"].number());
                                    assert(s.now().at == hit.at);
                                    if (seen.back() == 3)
                                      inner = s.create_event("change total", {.times = 1});
                                    return false;
                                  },
                              .values = {"n"}});
  s.create_event(
      "call add",
      {.log = [&](const backstep::Hit& h) { logged.push_back(h.values["n"].number()); }, .values = {"n"}});
  assert(s.run().why == "event" && s.value("total") == 6);
  assert((seen == std::vector<long>{1, 2, 3} && logged == seen));
  assert(s.events().size() == 3 && s.events()[2].spent && s.events()[2].event_id == inner);
  assert(s.run().why == "end" && seen.size() == 10 && logged.size() == 10);
  assert(s.run(true).why == "event" && s.value("total") == 3);  // in front of what it was told behind
  for (const backstep::Event& e : s.events()) s.destroy(e.event_id);
  assert(s.events().empty());
}

// What is asked in the middle of a stream is answered, whatever the stream still brings.
void both_at_once(backstep::Session& s) {
  int n = 0;
  for (const backstep::Hit& hit : s.log("sums.c:5", {"n"})) {
    s.go_to(hit.at);
    assert(s.value("n") == ++n && hit.values["n"] == n);
  }
  assert(n == 10);
}

void queries_and_assertions(backstep::Session& s) {
  const auto hit = s.query("goto last backward store 2 where addr=&total and func=<add>", {"$old", "$new"},
                           {.stack = true});
  assert(hit && hit->function == "add" && hit->line == 5 && hit->stack.at(1).function == "main");
  assert(hit->values["$new"].number() - hit->values["$old"].number() == 9);
  assert(s.now().at == hit->at);
  const auto back =
      s.query("goto current backward func_enter where func=<add> and n < 4", {"n"}, {.move = false});
  assert(back && back->texts.at("n") == "3" && s.now().at == hit->at);
  assert(!s.query("goto current forward func_enter 2 where func=<add>"));
  const auto verdicts = s.check("never call add if n > 10; always total >= 0 at call add");
  assert(verdicts.size() == 2 && verdicts[0].holds && !verdicts[0].first);
  assert(!verdicts[1].holds && verdicts[1].checks == 10 && verdicts[1].violations == 1);
  assert(verdicts[1].first->function == "add" && verdicts[1].first->values["total"] == -1);
  assert(s.check("never call add", {.processes = backstep::Processes::all()}).at(0).first->process == 1);
  sentence_of([&] { s.check("nver x"); }, -32000);
}

void debug_code(backstep::Session& s) {
  using backstep::DebugNote;
  const std::string count = "static int n; n++; if (n < 3) printf(\"%d\\n\", n);";
  std::vector<DebugNote> notes;
  for (const DebugNote& note : s.probe({.at = {{"call add", count}}})) notes.push_back(note);
  assert(notes.size() == 2 && notes[1].kind == DebugNote::Output && notes[1].text == "2\n");
  assert(notes[0].tick <= notes[1].tick && notes[1].code == "--at call add:1");
  notes.clear();
  s.go_to("start");
  s.on_debug([&](const DebugNote& note) { notes.push_back(note); });
  assert(s.debug({.at = {{"call add", count + "if (n == 2) backstep::stop(\"second\");"}}}) == 1);
  assert(s.forward().function == "add");
  assert(notes.size() >= 3 && notes[2].kind == DebugNote::Stop && notes[2].text == "second");
  assert(s.debug() == 0);
  s.on_debug({});
  s.go_to("start");
}

}  // namespace

int main(int, char** argv) {
  data();
  auto opened = backstep::Session::open(argv[1], {.process = "#1"});
  backstep::Session s = std::move(opened);
  sentence_of([&] { opened.now(); }, 0);
  questions(s);
  movement(s);
  both_at_once(s);
  bookmarks(s);
  steps_and_checkpoints(s);
  several_processes(s);
  events_that_stay(s);
  queries_and_assertions(s);
  debug_code(s);
  // The shell compares these with what the program says.
  std::cout << sentence_of([&] { s.count("call nothing"); }, -32000) << '\n'
            << sentence_of([&] { s.log("call nothing").next(); }, -32000) << '\n'
            << sentence_of([&] { s.go_to("nowhere"); }, -32000) << '\n'
            << sentence_of([] { backstep::Session::open("not-there"); }, 0) << '\n'
            << sentence_of([&] { backstep::Session::open(argv[1], {.process = "#7"}); }, 0) << '\n';
  sentence_of([&] { s.ask("nothing"); }, -32601);
  sentence_of([&] { s.memory(0, UINT64_MAX); }, -32602);
  s.close();
  std::cout << sentence_of([&] { s.count("call add"); }, 0) << '\n';
}
