#include "daemon/config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <initializer_list>

#include "tests/support/golden.hpp"

namespace kvern::daemon {
namespace {

using ::testing::HasSubstr;

result<std::variant<config, early_exit>> read(std::initializer_list<const char*> arguments) {
  return read_config(std::span<const char* const>(arguments.begin(), arguments.size()));
}

TEST(config, flags_set_every_member) {
  const auto got = read({"--model",
                         "m.gguf",
                         "--socket=/tmp/s",
                         "--threads",
                         "3",
                         "--context",
                         "4096",
                         "--max-running",
                         "7",
                         "--max-step-ms",
                         "80",
                         "--kv-memory",
                         "2GiB",
                         "--kv-type",
                         "int8",
                         "--int8-scale",
                         "head",
                         "--layout",
                         "ring",
                         "--update",
                         "eager",
                         "--stacked",
                         "false",
                         "--stage-stacked=false",
                         "--shards",
                         "2",
                         "--activations",
                         "fast",
                         "--prompt-lookup",
                         "off",
                         "--socket-mode",
                         "0600",
                         "--log-level",
                         "debug",
                         "--check"});
  ASSERT_TRUE(got) << got.error().message;
  const auto& c = std::get<config>(*got);
  EXPECT_EQ(c.model, "m.gguf");
  EXPECT_EQ(c.socket, "/tmp/s");
  EXPECT_EQ(c.threads, 3);
  EXPECT_EQ(c.context, 4096);
  EXPECT_EQ(c.max_running, 7);
  EXPECT_EQ(c.max_step_ms, 80);
  EXPECT_EQ(c.kv_memory, std::uint64_t{2} << 30);
  EXPECT_EQ(c.kv_type, "int8");
  EXPECT_EQ(c.int8_scale, "head");
  EXPECT_EQ(c.layout, "ring");
  EXPECT_EQ(c.update, "eager");
  EXPECT_FALSE(c.stacked);
  EXPECT_FALSE(c.stage_stacked);
  EXPECT_EQ(c.shards, 2);
  EXPECT_EQ(c.activations, "fast");
  EXPECT_EQ(c.prompt_lookup, "off");
  EXPECT_EQ(c.socket_mode, mode_t{0600});
  EXPECT_EQ(c.log_level, "debug");
  EXPECT_TRUE(c.check);
}

TEST(config, a_file_sets_the_same_and_a_flag_wins) {
  const test::scratch_folder folder;
  const auto path = (folder.path() / "kvernd.toml").string();
  std::ofstream(path) << "model = \"a.gguf\"\nthreads = 2\nkv_memory = \"1G\"\nsocket-mode = 0o640\ncontext = 128\n";
  const auto got = read({"--config", path.c_str(), "--threads", "5"});
  ASSERT_TRUE(got) << got.error().message;
  const auto& c = std::get<config>(*got);
  EXPECT_EQ(c.model, "a.gguf");
  EXPECT_EQ(c.threads, 5);
  EXPECT_EQ(c.kv_memory, std::uint64_t{1} << 30);
  EXPECT_EQ(c.socket_mode, mode_t{0640});
  EXPECT_EQ(c.context, 128);
}

TEST(config, an_unknown_key_or_flag_is_refused_with_the_nearest) {
  config c;
  const auto key = apply_toml(c, "\nkv_memmory = 1\n", "f.toml");
  ASSERT_FALSE(key);
  EXPECT_EQ(key.error().code, "configuration");
  EXPECT_THAT(key.error().message, HasSubstr("f.toml:2: unknown key 'kv_memmory'; did you mean 'kv_memory'?"));
  const auto flag = read({"--treads", "4"});
  ASSERT_FALSE(flag);
  EXPECT_THAT(flag.error().message, HasSubstr("did you mean --threads?"));
  EXPECT_FALSE(read({"stray"}));
}

TEST(config, bad_values_name_the_setting) {
  for (const auto* text : {"threads = -1",
                           "threads = 1.5",
                           "threads = \"many\"",
                           "context = 99999999999",
                           "model = 3",
                           "model = \"\"",
                           "kv_type = \"f64\"",
                           "layout = \"right\"",
                           "update = true",
                           "stacked = \"yes\"",
                           "stacked = 1",
                           "stage_stacked = \"\"",
                           "shards = 0",
                           "int8_scale = \"none\"",
                           "activations = true",
                           "prompt_lookup = true",
                           "socket_mode = 0o1777",
                           "kv_memory = \"2 elephants\"",
                           "kv_memory = -5",
                           "max_running = 0",
                           "max_step_ms = 0",
                           "[threads]",
                           "model = ["}) {
    config c;
    const auto got = apply_toml(c, text, "f.toml");
    ASSERT_FALSE(got) << text;
    EXPECT_THAT(got.error().message, HasSubstr("f.toml:1")) << text;
  }
  for (const char* path : {"/nonexistent/kvernd.toml", "/"}) {
    const auto got = read({"--config", path});
    ASSERT_FALSE(got) << path;
    EXPECT_THAT(got.error().message, HasSubstr(path));
  }
  EXPECT_FALSE(read({"--threads"}));
  EXPECT_FALSE(read({"--config", ""}));
  config c;
  EXPECT_THAT(apply_toml(c, "socket_mode = 660", "f.toml").error().message, HasSubstr("660 is not a mode"));
}

TEST(config, a_file_sets_truth_values_as_such_or_as_text) {
  config c;
  ASSERT_TRUE(apply_toml(c, "stacked = false\nstage_stacked = \"false\"\n", "f.toml"));
  EXPECT_FALSE(c.stacked);
  EXPECT_FALSE(c.stage_stacked);
}

TEST(config, values_that_contradict_each_other_are_refused) {
  for (const auto* type : {"f32", "f16", "bf16"}) {
    const auto got = read({"--kv-type", type, "--int8-scale", "group"});
    ASSERT_FALSE(got) << type;
    EXPECT_EQ(got.error().code, "configuration");
    EXPECT_THAT(got.error().message, HasSubstr("int8_scale"));
  }
  EXPECT_FALSE(read({"--kv-type", "int8", "--int8-scale", "line", "--shards", "2"}));
  EXPECT_TRUE(read({"--kv-type", "int8", "--int8-scale", "line"}));
  EXPECT_TRUE(read({"--kv-type", "int8", "--shards", "2"}));
}

TEST(config, sizes) {
  EXPECT_EQ(parse_size("4096"), 4096u);
  EXPECT_EQ(parse_size("512MiB"), std::uint64_t{512} << 20);
  EXPECT_EQ(parse_size("3g"), std::uint64_t{3} << 30);
  EXPECT_FALSE(parse_size(""));
  EXPECT_FALSE(parse_size("-1"));
  EXPECT_FALSE(parse_size("GiB"));
  EXPECT_FALSE(parse_size("99999999999999999999"));
  EXPECT_FALSE(parse_size("18446744073709551615T"));
}

TEST(config, help_and_version_end_early) {
  for (const char* flag : {"--help", "--version"}) {
    const auto got = read({flag});
    ASSERT_TRUE(got);
    EXPECT_TRUE(std::holds_alternative<early_exit>(*got));
  }
}

}  // namespace
}  // namespace kvern::daemon
