#include "model/tokenizer/pretokenizer.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "base/utf8.hpp"

namespace kvern {
namespace {

constexpr std::string_view white_space =
    R"(\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

constexpr std::size_t jit_stack_start = 32U * 1024;
constexpr std::size_t jit_stack_limit = 8U * 1024 * 1024;
constexpr std::uint32_t heap_limit_kib = 64U * 1024;

struct code_deleter {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct match_data_deleter {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct match_context_deleter {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
struct jit_stack_deleter {
  void operator()(pcre2_jit_stack* stack) const { pcre2_jit_stack_free(stack); }
};

/// Steps the matcher may take in a piece: expressions here walk each run a fixed number of times.
std::uint32_t match_limit(std::size_t piece) {
  constexpr std::size_t most = 0xFFFFFFFF;
  return static_cast<std::uint32_t>(std::min(most, 1000 + std::min(piece, most / 16) * 16));
}

}  // namespace

struct pretokenizer::program {
  std::unique_ptr<pcre2_code, code_deleter> code;
};

struct pretokenizer::session::scratch {
  std::unique_ptr<pcre2_match_data, match_data_deleter> data;
  std::unique_ptr<pcre2_match_context, match_context_deleter> context;
  std::unique_ptr<pcre2_jit_stack, jit_stack_deleter> stack;
};

pretokenizer::pretokenizer() = default;
pretokenizer::~pretokenizer() = default;
pretokenizer::pretokenizer(pretokenizer&&) noexcept = default;
pretokenizer& pretokenizer::operator=(pretokenizer&&) noexcept = default;

std::string expand_white_space(std::string_view expression) {
  std::string out;
  bool in_class = false;
  for (std::size_t i = 0; i < expression.size(); ++i) {
    const char c = expression[i];
    if (c == '\\' && i + 1 < expression.size()) {
      const char escaped = expression[++i];
      if (escaped == 's') {
        out += in_class ? std::string(white_space) : fmt::format("[{}]", white_space);
      } else if (escaped == 'S' && !in_class) {
        out += fmt::format("[^{}]", white_space);
      } else {
        out += c;
        out += escaped;
      }
      continue;
    }
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    out += c;
  }
  return out;
}

result<pretokenizer> pretokenizer::create(std::span<const std::string_view> expressions) {
  pretokenizer made;
  for (const std::string_view expression : expressions) {
    const std::string pattern = expand_white_space(expression);
    int code = 0;
    PCRE2_SIZE where = 0;
    program p{std::unique_ptr<pcre2_code, code_deleter>(
        pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                      PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &code, &where, nullptr))};
    if (!p.code) {
      return fail("model_unsupported",
                  fmt::format("an expression of the pre-tokenizer does not compile (PCRE2 error {} at {}); use PCRE2 "
                              "10.40 or later, built with Unicode",
                              code, where));
    }
    // Without JIT (a hardened system forbids it) the interpreter does the same work.
    static_cast<void>(pcre2_jit_compile(p.code.get(), PCRE2_JIT_COMPLETE));
    made.programs_.push_back(std::move(p));
  }
  return made;
}

pretokenizer::session::session(const pretokenizer& owner) : owner_(owner), scratch_(std::make_unique<scratch>()) {
  scratch_->data.reset(pcre2_match_data_create(1, nullptr));
  scratch_->context.reset(pcre2_match_context_create(nullptr));
  scratch_->stack.reset(pcre2_jit_stack_create(jit_stack_start, jit_stack_limit, nullptr));
  if (scratch_->context) {
    pcre2_set_heap_limit(scratch_->context.get(), heap_limit_kib);
    pcre2_jit_stack_assign(scratch_->context.get(), nullptr, scratch_->stack.get());
  }
}

pretokenizer::session::~session() = default;

/// Where the next match of `step` begins; its end in `end`. The piece's size when there is none.
std::size_t pretokenizer::session::find(std::size_t step, std::string_view piece, std::size_t from, std::size_t& end) {
  const pcre2_code* code = owner_.programs_[step].code.get();
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(piece.data());
  if (!scratch_->data || !scratch_->context) return piece.size();
  pcre2_set_match_limit(scratch_->context.get(), match_limit(piece.size()));
  const auto match = [&](std::uint32_t options) {
    return pcre2_match(code, subject, piece.size(), from, options | PCRE2_NO_UTF_CHECK, scratch_->data.get(),
                       scratch_->context.get());
  };
  int found = match(0);
  if (found < 0 && found != PCRE2_ERROR_NOMATCH) found = match(PCRE2_NO_JIT);
  if (found < 0) return piece.size();
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(scratch_->data.get());
  end = bounds[1];
  return bounds[1] > bounds[0] ? bounds[0] : piece.size();
}

void pretokenizer::session::split_piece(std::size_t step, std::string_view piece,
                                        const std::function<void(std::string_view)>& word) {
  if (step == owner_.programs_.size()) {
    word(piece);
    return;
  }
  std::size_t at = 0;
  while (at < piece.size()) {
    std::size_t end = piece.size();
    const std::size_t begin = find(step, piece, at, end);
    if (begin > at) split_piece(step + 1, piece.substr(at, begin - at), word);
    if (begin < piece.size()) split_piece(step + 1, piece.substr(begin, end - begin), word);
    at = begin < piece.size() ? end : piece.size();
  }
}

void pretokenizer::session::split(std::string_view text, const std::function<void(std::string_view)>& word) {
  while (!text.empty()) {
    const std::size_t valid = utf8_valid_prefix(text);
    if (valid > 0) {
      split_piece(0, text.substr(0, valid), word);
    } else {
      word(text.substr(0, 1));
    }
    text.remove_prefix(std::max<std::size_t>(valid, 1));
  }
}

}  // namespace kvern
