// MetricsFile as a table: its columns, what a resumed run keeps, and files that do not belong to a
// run.

#include "train/metrics.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <iterator>

#include "support/errors.h"
#include "support/files.h"

namespace rondo::test {
namespace {

using train::MetricsFile;

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(MetricsTable, HasEpochAndStepFirstAndShortestNumbers) {
  const TemporaryFolder folder;
  MetricsFile file(folder / "logs/run.csv", -1);
  file.write({{"accuracy", 0.1}, {"epoch", 1}, {"lr", 1e-5}, {"step", 390}});
  file.write({{"accuracy", 0.25}, {"epoch", 2}, {"lr", 0}, {"step", 780}});
  EXPECT_EQ(text_of(file.path()), "epoch,step,accuracy,lr\n1,390,0.1,1e-05\n2,780,0.25,0\n");
}

TEST(MetricsTable, KeepsTheRowsOfTheEpochsThatAreNotRepeated) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "run.csv";
  std::ofstream(path) << "epoch,step,loss\n1,10,2.5\n2,20,1.5\n3,3";  // truncated
  MetricsFile::check(path);
  MetricsFile file(path, 1);
  file.write({{"epoch", 2}, {"step", 20}, {"loss", 1}});
  EXPECT_EQ(text_of(path), "epoch,step,loss\n1,10,2.5\n2,20,1\n");
  EXPECT_ERROR(file.write({{"epoch", 3}, {"step", 30}, {"accuracy", 1}}), IoError,
               "run.csv: its columns are epoch,step,loss");
}

TEST(MetricsTable, TakesNoNumberThatMayHaveLostItsEnd) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "run.csv";
  std::ofstream(path) << "epoch,step,loss\r\n1,10,2.5\r\n2,20,1.2";
  MetricsFile file(path, 2);
  file.write({{"epoch", 2}, {"step", 20}, {"loss", 1.25}});
  EXPECT_EQ(text_of(path), "epoch,step,loss\n1,10,2.5\n2,20,1.25\n");
}

TEST(MetricsTable, ARowThatCannotBeReadIsNotLostInSilence) {
  const TemporaryFolder folder;
  const auto refused = [&](const char* name, const std::string& text, const std::string& line) {
    std::ofstream(folder / name) << text;
    EXPECT_ERROR(MetricsFile(folder / name, 2), IoError,
                 name + (": has a line that is not a row of a run and would be lost: \"" + line));
    EXPECT_EQ(text_of(folder / name), text);
    MetricsFile(folder / name, -1);  // a new run keeps none
  };
  refused("run.csv", "epoch,step,loss\n1,10,2.5\n2,20,1.5,a note\n", "2,20,1.5,a note");
  refused("run.csv", "epoch,step,loss\none,10,2.5\n", "one,10,2.5");
  refused("run.jsonl", "{\"epoch\": 1}\nEpoch 2 was slow\n", "Epoch 2 was slow");
  std::ofstream(folder / "run.csv") << "epoch,loss\n1,2\n2,1\n3\n";
  MetricsFile(folder / "run.csv", 1);  // dropped together with the second line
  EXPECT_EQ(text_of(folder / "run.csv"), "epoch,loss\n1,2\n");
  std::ofstream(folder / "run.csv") << "epoch,loss\n1,2\n\n2,1\n";
  MetricsFile(folder / "run.csv", 2);
  EXPECT_EQ(text_of(folder / "run.csv"), "epoch,loss\n1,2\n2,1\n");
}

TEST(MetricsTable, WhatASpreadsheetOrAnEndPutsAtItsBeginning) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "run.csv";
  std::ofstream(path) << "\xEF\xBB\xBF"
                      << "epoch,step,loss\r\n1,10,2.5\r\n";
  MetricsFile(path, 2).write({{"epoch", 2}, {"step", 20}, {"loss", 1.25}});
  EXPECT_EQ(text_of(path), "epoch,step,loss\n1,10,2.5\n2,20,1.25\n");
  for (const char* torn : {"", "epo", "epoch,st"}) {
    std::ofstream(path) << torn;
    MetricsFile(path, 2).write({{"epoch", 1}, {"loss", 2}});
    EXPECT_EQ(text_of(path), "epoch,loss\n1,2\n") << torn;
  }
  std::ofstream(path) << "name,price";  // somebody's, though it has no end either
  EXPECT_ERROR(MetricsFile::check(path), IoError, "its first column is not epoch");
}

TEST(MetricsTable, SaysBeforehandWhatIsWrong) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "run.csv");
  EXPECT_ERROR(MetricsFile::check(folder / "run.csv"), IoError, "run.csv: is a folder");
  EXPECT_ERROR(MetricsFile::check("/dev/zero"), IoError, "/dev/zero: is not a regular file");
  EXPECT_ERROR(MetricsFile("/dev/zero", -1), IoError, "/dev/zero: is not a regular file");
  std::ofstream(folder / "other.csv") << "name,price\n";
  EXPECT_ERROR(MetricsFile::check(folder / "other.csv"), IoError, "its first column is not epoch");
  EXPECT_EQ(text_of(folder / "other.csv"), "name,price\n");
  std::ofstream(folder / "file") << "";
  EXPECT_ERROR(MetricsFile::check(folder / "file/run.csv"), IoError, "is not a writable folder");
  MetricsFile::check("run.csv");  // in the current folder
}

TEST(MetricsTable, AUsersLinkIsFollowedAndAPlantedOneIsNot) {
  const TemporaryFolder folder;
  write_file(folder / "victim", "mine");
  std::filesystem::create_symlink(folder / "disk.csv", folder / "run.csv");
  MetricsFile file(folder / "run.csv", -1);
  file.write({{"epoch", 1}});
  EXPECT_EQ(text_of(folder / "disk.csv"), "epoch\n1\n");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "run.csv"));
  std::filesystem::remove(folder / "disk.csv");
  file.write({{"epoch", 2}});  // like a log file that another program has moved away
  EXPECT_EQ(text_of(folder / "disk.csv"), "2\n");
  std::filesystem::remove(folder / "disk.csv");
  std::filesystem::create_symlink(folder / "victim", folder / "disk.csv");
  EXPECT_ERROR(file.write({{"epoch", 3}}), IoError,
               "disk.csv: cannot be written: it is a symbolic link");
  std::filesystem::remove(folder / "disk.csv");
  ASSERT_EQ(mkfifo((folder / "disk.csv").c_str(), 0600), 0);
  EXPECT_ERROR(file.write({{"epoch", 3}}), IoError, "it is not a regular file");
  EXPECT_EQ(text_of(folder / "victim"), "mine");
}

TEST(MetricsTable, BothKindsAreReadAsTheyWereWritten) {
  const TemporaryFolder folder;
  const std::vector<train::Metrics> rows = {{{"epoch", 1}, {"step", 10}, {"loss", 2.5}},
                                            {{"epoch", 2}, {"step", 20}, {"loss", 0.1}}};
  for (const char* name : {"run.csv", "run.jsonl"}) {
    MetricsFile file(folder / name, -1);
    for (const train::Metrics& row : rows) file.write(row);
    // Both are truncated, one so that the rest looks complete.
    std::ofstream(folder / name, std::ios::app)
        << (name == std::string("run.csv") ? "3,30,0.0" : "{\"epo");
    EXPECT_EQ(train::read_metrics(folder / name), rows) << name;
  }
  std::ofstream(folder / "twice.jsonl") << "{\"epoch\": 1, \"loss\": 3}\n"
                                        << "{\"epoch\": 1, \"loss\": null}\n";
  EXPECT_EQ(train::read_metrics(folder / "twice.jsonl"),
            (std::vector<train::Metrics>{{{"epoch", 1}}}));
  EXPECT_ERROR(train::read_metrics(folder / "none.csv"), IoError, "none.csv: cannot be opened");
}

TEST(MetricsTable, ANewRunReplacesARunButNothingElse) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "run.csv";
  std::ofstream(path) << "epoch,step,loss\n1,10,2.5\n";
  MetricsFile(path, -1).write({{"epoch", 1}, {"step", 10}, {"accuracy", 0.5}});
  EXPECT_EQ(text_of(path), "epoch,step,accuracy\n1,10,0.5\n");
  std::ofstream(path) << "name,price\n";
  EXPECT_ERROR(MetricsFile(path, -1), IoError, "run.csv: its first column is not epoch");
  EXPECT_EQ(text_of(path), "name,price\n");
}

}  // namespace
}  // namespace rondo::test
