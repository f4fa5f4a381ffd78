// Virtual calls and std::map: indirect branches and pointer chasing in C++.
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

struct Shape {
  virtual ~Shape() = default;
  virtual uint64_t size(uint64_t scale) const = 0;
};
struct Dot : Shape {
  uint64_t size(uint64_t scale) const override { return scale & 1; }
};
struct Square : Shape {
  explicit Square(uint64_t s) : side(s) {}
  uint64_t size(uint64_t scale) const override { return side * side * scale; }
  uint64_t side;
};
struct Group : Shape {
  uint64_t size(uint64_t scale) const override {
    uint64_t total = 0;
    for (auto& part : parts) total += part->size(scale + 1);
    return total;
  }
  std::vector<std::unique_ptr<Shape>> parts;
};

int main() {
  uint64_t seed = 42;
  auto next = [&] { return seed = seed * 6364136223846793005u + 1442695040888963407u, seed >> 33; };
  Group root;
  for (int i = 0; i < 50; i++) {
    auto group = std::make_unique<Group>();
    for (int j = 0; j < 10; j++) {
      if (next() % 2)
        group->parts.push_back(std::make_unique<Dot>());
      else
        group->parts.push_back(std::make_unique<Square>(next() % 9));
    }
    root.parts.push_back(std::move(group));
  }
  std::map<std::string, uint64_t> table;
  for (int i = 0; i < 2000; i++) table["key" + std::to_string(next() % 500)] += root.size(i % 7);
  uint64_t digest = 0;
  for (auto& [key, value] : table) digest = digest * 31 + value + key.size();
  std::printf("%zu keys, digest %llu\n", table.size(), static_cast<unsigned long long>(digest));
}
