// The time of encoding grows with the text and not with its square, on a stack that no recursion would survive.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <ctime>
#include <functional>
#include <limits>

#include "model/tokenizer/test_model.hpp"

namespace kvern {
namespace {

constexpr std::size_t stack_bytes = 256U * 1024;
#ifdef __SANITIZE_ADDRESS__
constexpr std::size_t half_bytes = 20'000;  // the sanitizer takes ten times as long
#else
constexpr std::size_t half_bytes = 100'000;
#endif

void on_small_stack(std::function<void()> work) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, stack_bytes), 0);
  pthread_t thread{};
  const auto run = [](void* argument) -> void* {
    (*static_cast<std::function<void()>*>(argument))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, run, &work), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

std::string repeated(std::string_view unit, std::size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += unit;
  return text;
}

/// CPU seconds of this thread.
double seconds_to_encode(const tokenizer& t, const std::string& text) {
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  };
  const double begin = now();
  const auto ids = t.encode(text, true, true);
  const double seconds = now() - begin;
  EXPECT_LE(ids.size(), text.size() + 2);
  return seconds;
}

/// Whether twice the text takes less than three times as long. Other work on the machine disturbs single measurements,
/// so the best of several counts; 2 ms are below what can be measured well.
bool is_linear(const tokenizer& t, const std::string& half, const std::string& full) {
  double least_half = std::numeric_limits<double>::max();
  double least_full = least_half;
  for (int round = 0; round < 6; ++round) {
    least_half = std::min(least_half, seconds_to_encode(t, half));
    least_full = std::min(least_full, seconds_to_encode(t, full));
    if (least_full < 3 * least_half + 0.002) return true;
  }
  return false;
}

class encoding_time : public testing::TestWithParam<std::string> {
 protected:
  static std::shared_ptr<const tokenizer> open(const std::string& name) {
    if (name.starts_with("tiny-")) {
      const auto path = test::golden("arch/" + name.substr(5) + ".gguf");
      return path ? *tokenizer::create(**gguf_file::open(*path)) : nullptr;
    }
    if (name.starts_with("style-")) {
      return *test::byte_bpe_model({"A A", "u s", "us us", "Ġ Ġ", "ĠĠ ĠĠ", "Ċ Ċ", "1 1"}, {{"<x>"}}, name.substr(6))
                  .make();
    }
    const auto path = test::fetched_model(name);
    return path ? *tokenizer::create(**gguf_file::open(*path)) : nullptr;
  }
};

TEST_P(encoding_time, is_linear_for_every_kind_of_run) {
  const auto t = open(GetParam());
  if (!t) GTEST_SKIP() << GetParam() << " is not here";
  on_small_stack([&] {
    for (const std::string_view unit :
         {"A",    "Z",      ".",  " ",       "\n",     "7",      "us",    "\U0001F600", "\t",
          "\r\n", " \n",    "漢", "e\u0301", "\u0301", "<",      "<|",    "Ab",         "<x> ",
          "\xFF", "aa\xE2", "'s", " x",      "x\n\n",  "\u180E", "\u3000"}) {
      // What follows the run is none of it, so that an expression that looks for the run's end finds something else.
      for (const std::string_view tail : {"", "7"}) {
        EXPECT_TRUE(is_linear(*t, repeated(unit, half_bytes) + std::string(tail),
                              repeated(unit, 2 * half_bytes) + std::string(tail)))
            << fmt::format("run of '{}' before '{}'", unit, tail);
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(models, encoding_time,
                         testing::Values("smollm2", "gemma3", "tiny-llama", "tiny-qwen2", "tiny-olmo2", "tiny-granite",
                                         "tiny-gemma3", "tiny-phi3", "style-deepseek-llm", "style-deepseek-coder",
                                         "style-deepseek-v3", "style-falcon", "style-default", "style-gpt-4o",
                                         "style-tekken", "style-bloom", "style-qwen35", "style-minicpm5"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace kvern
