// Virtual calls and std::map: indirect branches and pointer chasing.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <vector>

struct Node {
  virtual ~Node() = default;
  virtual uint64_t value(uint64_t x) const = 0;
};
struct Add : Node {
  explicit Add(uint64_t n) : n(n) {}
  uint64_t value(uint64_t x) const override { return x + n; }
  uint64_t n;
};
struct Multiply : Node {
  explicit Multiply(uint64_t n) : n(n) {}
  uint64_t value(uint64_t x) const override { return x * n; }
  uint64_t n;
};
struct Rotate : Node {
  uint64_t value(uint64_t x) const override { return x << 13 | x >> 51; }
};

int main(int argc, char** argv) {
  int rounds = argc > 1 ? std::atoi(argv[1]) : 1500000;
  uint64_t seed = 1;
  auto next = [&] { return seed = seed * 6364136223846793005u + 1442695040888963407u, seed >> 33; };
  std::vector<std::unique_ptr<Node>> nodes;
  for (int i = 0; i < 64; i++) {
    if (next() % 3 == 0)
      nodes.push_back(std::make_unique<Add>(next()));
    else if (next() % 2)
      nodes.push_back(std::make_unique<Multiply>(next() | 1));
    else
      nodes.push_back(std::make_unique<Rotate>());
  }
  std::map<uint64_t, uint64_t> table;
  uint64_t x = 7;
  for (int i = 0; i < rounds; i++) {
    for (int j = 0; j < 16; j++) x = nodes[(x >> 7 ^ static_cast<uint64_t>(j)) & 63]->value(x);
    table[x % 4096] += x;
  }
  uint64_t sum = 0;
  for (auto& [key, value] : table) sum = sum * 31 + key + value;
  std::printf("%zu %llu\n", table.size(), static_cast<unsigned long long>(sum));
}
