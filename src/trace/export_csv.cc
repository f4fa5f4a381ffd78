// Files are written under other names, and get their own when all of them are complete.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include <fmt/format.h>

#include "base/error.h"
#include "trace/csv.h"
#include "trace/export.h"

namespace backstep::trace {
namespace {

namespace fs = std::filesystem;

class CsvExport : public Export {
 public:
  CsvExport(const std::string& path, const std::vector<std::string>& tables, bool replace) : path_(path) {
    std::error_code ec;
    is_file_ = path_.extension() == ".csv" && !fs::is_directory(path_, ec);
    if (is_file_ && tables.size() != 1)
      throw Error(fmt::format("one file has room for one table, these are {}: name a table or a query, or a "
                              "folder instead of {}",
                              tables.size(), path),
                  kExitUsage);
    for (const std::string& name : tables)
      if (const fs::path file = file_of(name); !replace && fs::exists(file, ec))
        throw Error(fmt::format("{} exists already; --replace replaces it", file.string()));
    if (!is_file_) {
      made_folder_ = fs::create_directories(path_, ec);
      if (ec) throw Error(fmt::format("cannot make the folder {}: {}", path, errno_text(ec.value())));
    }
  }
  ~CsvExport() override {
    if (out_) std::fclose(out_);
    std::error_code ec;
    for (const Written& w : written_) fs::remove(w.temporary, ec);
    if (!written_.empty() && made_folder_) fs::remove(path_, ec);
  }

  bool needs_types() const override { return false; }

  void begin(const ExportedTable& table) override {
    const fs::path file = file_of(table.name);
    fs::path temporary = file;
    temporary.replace_filename(fmt::format(".{}.new-{}", file.filename().string(), getpid()));
    out_ = std::fopen(temporary.c_str(), "wxe");
    if (!out_) fail(temporary);
    written_.push_back({temporary, file});
    std::vector<Heading> headings;
    for (const ExportedColumn& c : table.columns) headings.push_back({c.name});
    put(csv_heading(headings));
  }
  void row(const Row& row) override { put(csv_line(row)); }
  void end() override {
    const bool good = std::fflush(out_) == 0;
    if (std::fclose(std::exchange(out_, nullptr)) != 0 || !good) fail(written_.back().temporary);
  }
  void finish() override {
    for (const Written& w : written_) {
      std::error_code ec;
      fs::rename(w.temporary, w.file, ec);
      if (ec) throw Error(fmt::format("cannot write {}: {}", w.file.string(), errno_text(ec.value())));
    }
    written_.clear();
  }

 private:
  struct Written {
    fs::path temporary, file;
  };
  fs::path file_of(const std::string& table) const { return is_file_ ? path_ : path_ / (table + ".csv"); }
  [[noreturn]] static void fail(const fs::path& file) {
    throw Error(fmt::format("cannot write {}: {}", file.string(), errno_text(errno)));
  }
  void put(const std::string& line) {
    if (std::fwrite(line.data(), 1, line.size(), out_) != line.size() || std::fputc('\n', out_) == EOF)
      fail(written_.back().temporary);
  }

  fs::path path_;
  bool is_file_ = false, made_folder_ = false;
  std::FILE* out_ = nullptr;
  std::vector<Written> written_;
};

}  // namespace

std::unique_ptr<Export> export_to_csv(const std::string& path, const std::vector<std::string>& tables,
                                      bool replace) {
  return std::make_unique<CsvExport>(path, tables, replace);
}

}  // namespace backstep::trace
