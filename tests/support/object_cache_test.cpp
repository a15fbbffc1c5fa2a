// The disk cache: what is stored is found, and nothing that is damaged, foreign, unwritable or missing is.
#include "support/object_cache.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

namespace thalweg {
namespace {

namespace fs = std::filesystem;

class ObjectCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "thalweg_cache_XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path only_file() const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder_)) files.push_back(entry.path());
    EXPECT_EQ(files.size(), 1u);
    return files.at(0);
  }
  fs::path folder_;
};

TEST_F(ObjectCacheTest, FindsWhatWasStored) {
  ObjectCache cache((folder_ / "deep" / "er").string());
  EXPECT_FALSE(cache.load("key"));
  std::string object("\0binary\n\xff", 9);
  cache.store("key", object);
  EXPECT_EQ(cache.load("key"), object);
  EXPECT_FALSE(cache.load("other"));
  cache.store("key", "newer");
  EXPECT_EQ(cache.load("key"), "newer");
}

TEST_F(ObjectCacheTest, IgnoresEveryDamage) {
  ObjectCache cache(folder_.string());
  cache.store("key", "object code");
  fs::path file = only_file();
  std::ifstream in(file, std::ios::binary);
  std::string good((std::istreambuf_iterator<char>(in)), {});
  for (size_t i = 0; i <= good.size(); ++i) {
    std::string flipped = good, cut = good.substr(0, i);
    if (i < good.size())
      flipped[i] = static_cast<char>(flipped[i] ^ 0x20);
    else
      flipped += 'x';
    for (const std::string& bytes : {flipped, cut}) {
      if (bytes == good) continue;
      std::ofstream(file, std::ios::binary) << bytes;
      EXPECT_FALSE(cache.load("key")) << "byte " << i;
    }
  }
  cache.store("key", "again");
  EXPECT_EQ(cache.load("key"), "again");
}

TEST_F(ObjectCacheTest, ToleratesFoldersThatCannotBeWritten) {
  std::ofstream(folder_ / "file") << "not a folder";
  ObjectCache blocked((folder_ / "file" / "below").string());
  blocked.store("key", "object");
  EXPECT_FALSE(blocked.load("key"));
  ObjectCache proc("/proc/thalweg");
  proc.store("key", "object");
  EXPECT_FALSE(proc.load("key"));
  ObjectCache none("");
  none.store("key", "object");
  EXPECT_FALSE(none.load("key"));
}

// A limit on file size makes writes fail half-way, as a full disk does.
TEST_F(ObjectCacheTest, ToleratesWritesThatFail) {
  ObjectCache cache(folder_.string());
  auto write_limited = [&] {
    std::signal(SIGXFSZ, SIG_IGN);
    rlimit limit{1000, 1000};
    setrlimit(RLIMIT_FSIZE, &limit);
    cache.store("key", std::string(100000, 'x'));
    _exit(cache.load("key") ? 1 : 0);
  };
  EXPECT_EXIT(write_limited(), testing::ExitedWithCode(0), "");
  EXPECT_TRUE(fs::is_empty(folder_));
  cache.store("key", "object");
  EXPECT_EQ(cache.load("key"), "object");
}

TEST_F(ObjectCacheTest, ManyWritersLeaveWholeFiles) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      ObjectCache cache(folder_.string());
      std::string object(5000, static_cast<char>('a' + t));
      for (int i = 0; i < 50; ++i) {
        cache.store("shared", object);
        auto found = cache.load("shared");
        ASSERT_TRUE(found);
        ASSERT_EQ(*found, std::string(5000, (*found)[0]));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(only_file().extension(), ".o");
}

}  // namespace
}  // namespace thalweg
