#include "cli/flame_graph.h"

#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "cli/format.h"
#include "serve/packets.h"

namespace backstep::cli {
namespace {

using serve::escaped;

constexpr double kWidth = 1200, kRow = 18, kMargin = 10, kTop = 40;
constexpr double kLetter = 7;  // width of a letter, about

struct Box {
  std::map<std::string, std::unique_ptr<Box>> above;
  uint64_t samples = 0;
};

size_t height(const Box& box) {
  size_t most = 0;
  for (const auto& [name, child] : box.above) most = std::max(most, 1 + height(*child));
  return most;
}

class Picture {
 public:
  Picture(const session::Profile& profile, double bottom) : profile_(profile), bottom_(bottom) {}

  void draw(const Box& box, const std::string& name, double x, double width, size_t level) {
    const double y = bottom_ - kRow * static_cast<double>(level + 1);
    // The same function has the same colour everywhere.
    unsigned hash = 2166136261u;
    for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
    const double share = 100.0 * static_cast<double>(box.samples) /
                         static_cast<double>(std::max<uint64_t>(profile_.samples, 1));
    out += fmt::format(
        "<g><title>{}: {} ticks, {:.2f}%</title><rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" "
        "height=\"{}\" rx=\"2\" "
        "fill=\"rgb({},{},{})\"/>",
        escaped(name), format_count(box.samples * profile_.period), share, x, y, std::max(width - 0.5, 0.3),
        kRow - 1, 205 + hash % 50, 80 + (hash >> 8) % 120, 30 + (hash >> 16) % 40);
    const auto letters = static_cast<size_t>(width / kLetter);
    if (letters > 3)
      out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>", x + 3, y + kRow - 5,
                         escaped(shorten(name, letters - 1)));
    out += "</g>\n";
    double at = x;
    for (const auto& [child_name, child] : box.above) {
      const double part = width * static_cast<double>(child->samples) /
                          static_cast<double>(std::max<uint64_t>(box.samples, 1));
      if (part >= 0.1) draw(*child, child_name, at, part, level + 1);
      at += part;
    }
  }

  std::string out;

 private:
  const session::Profile& profile_;
  double bottom_;
};

}  // namespace

std::string flame_graph(const session::Profile& profile, const std::string& title) {
  Box all;
  for (const auto& [stack, n] : profile.stacks) {
    Box* box = &all;
    box->samples += n;
    for (const std::string& name : stack) {
      auto& child = box->above[name];
      if (!child) child = std::make_unique<Box>();
      child->samples += n;
      box = child.get();
    }
  }
  const double bottom = kTop + kRow * static_cast<double>(height(all) + 1);
  Picture picture(profile, bottom);
  picture.draw(all, "all", kMargin, kWidth - 2 * kMargin, 0);
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
      "font-family=\"monospace\" "
      "font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fffdf7\"/>\n<text x=\"{2}\" y=\"24\" "
      "font-size=\"15\">{3}</text>\n{4}</svg>\n",
      kWidth, bottom + kMargin, kMargin, escaped(title), picture.out);
}

}  // namespace backstep::cli
