#include "model/tokenizer/split_style.hpp"

#include <algorithm>
#include <array>

namespace kvern {
namespace {

// Expressions of the tokenizers' own definitions, as PCRE2 wants them: possessive wherever giving back a character
// could not lead to a match, so that no run of characters is walked more than a fixed number of times. `pretokenizer`
// gives \s its Unicode meaning.

#define KVERN_CONTRACTION R"('(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL]))"
// The same as \s*[\r\n]+. The list is \s without the line ends: in a class \S would be PCRE2's own.
#define KVERN_LINE_END \
  R"((?:[\t\x0B\x0C \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}]*+[\r\n]++)++)"
#define KVERN_SPACE R"(\s+(?!\S)|\s)"

// Letters in two kinds: those that may stand before a lower-case tail, and the tail.
#define KVERN_HEAD R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])"
#define KVERN_TAIL R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])"

constexpr std::string_view digit = R"(\p{N})";
constexpr std::string_view digits = R"(\p{N}++)";
constexpr std::string_view three_digits = R"(\p{N}{1,3}+)";
constexpr std::string_view three_ascii_digits = "[0-9][0-9][0-9]";
constexpr std::string_view line_end = R"([\r\n])";
constexpr std::string_view cjk = R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]++)";
constexpr std::string_view han_kana = R"([\x{4E00}-\x{9FA5}\x{3040}-\x{30FF}]++)";

constexpr std::string_view classic = R"('(?:[stmd]|re|ve|ll)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|)" KVERN_SPACE;

constexpr std::string_view words_three_digits = KVERN_CONTRACTION
    R"(|[^\r\n\p{L}\p{N}]?\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|)" KVERN_LINE_END "|" KVERN_SPACE;

constexpr std::string_view words_one_digit =
    KVERN_CONTRACTION R"(|[^\r\n\p{L}\p{N}]?\p{L}++|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*+|)" KVERN_LINE_END "|" KVERN_SPACE;

constexpr std::string_view words_with_marks = KVERN_CONTRACTION
    R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]++|\p{N}| ?[^\s\p{L}\p{M}\p{N}]++[\r\n]*+|)" KVERN_LINE_END "|" KVERN_SPACE;

constexpr std::string_view words_seed =
    KVERN_CONTRACTION R"(|[^\r\n\p{L}\p{N}]?\p{L}++|\p{N}| ?[^\s\p{L}\p{N}\r\n]++|)" KVERN_LINE_END "|" KVERN_SPACE;

constexpr std::string_view words_all_digits = KVERN_CONTRACTION
    R"(|[^\r\n\p{L}\p{N}]?\p{L}++|\p{N}++| ?[^\s\p{L}\p{N}]++[\r\n]*+|)" KVERN_LINE_END "|" KVERN_SPACE;

constexpr std::string_view words_deepseek_v3 =
    R"([!-/:-@\[-`{-~][A-Za-z]++|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]++| ?[\p{P}\p{S}]++[\r\n]*+|)" KVERN_LINE_END
    "|" KVERN_SPACE;

constexpr std::string_view words_by_case =
    R"([^\r\n\p{L}\p{N}]?)" KVERN_HEAD "*" KVERN_TAIL R"(++|[^\r\n\p{L}\p{N}]?)" KVERN_HEAD "++" KVERN_TAIL
    R"(*+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n/]*+|)" KVERN_LINE_END "|" KVERN_SPACE;

constexpr std::string_view words_by_case_contracted =
    R"([^\r\n\p{L}\p{N}]?)" KVERN_HEAD "*" KVERN_TAIL "++(?:" KVERN_CONTRACTION R"()?|[^\r\n\p{L}\p{N}]?)" KVERN_HEAD
    "++" KVERN_TAIL "*+(?:" KVERN_CONTRACTION R"()?|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n/]*+|)" KVERN_LINE_END
    "|" KVERN_SPACE;

constexpr std::string_view between_punctuation =
    R"( ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C})]++)";

constexpr std::string_view punctuation_falcon = R"([\p{P}$+<=>^~|`]++)";
constexpr std::string_view punctuation_default = R"([\p{P}$+<=>^~|]++)";

// The cased letters that DeepSeek's definition lists.
constexpr std::string_view cased_letters =
    R"(\s?[A-Za-z)"
    R"(\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF})"
    R"(\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1})"
    R"(\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5})"
    R"(\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A})"
    R"(\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B})"
    R"(\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC})"
    R"(\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107})"
    R"(\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134})"
    R"(\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4})"
    R"(\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787})"
    R"(\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A})"
    R"(\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2})"
    R"(\x{118A0}-\x{118DF}\x{1E900}-\x{1E943})"
    R"(]++)";
constexpr std::string_view punctuation_deepseek =
    R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]++)";
// At the end of a piece; the look-behind keeps a search from trying each character of a long run.
constexpr std::string_view trailing_space = R"((?<!\s)\s++\z)";
constexpr std::string_view spaced_letters = R"(\s?\p{L}++)";
constexpr std::string_view spaced_punctuation = R"(\s?\p{P}++)";
constexpr std::string_view lines = R"([^\n]++|\n++)";

#undef KVERN_CONTRACTION
#undef KVERN_LINE_END
#undef KVERN_SPACE
#undef KVERN_HEAD
#undef KVERN_TAIL

using std::array;
constexpr array steps_default{punctuation_default, classic, digits, three_ascii_digits};
constexpr array steps_gpt2{classic};
constexpr array steps_starcoder{digit, classic};
constexpr array steps_falcon{punctuation_falcon, classic, three_ascii_digits};
constexpr array steps_llama3{words_three_digits};
constexpr array steps_qwen2{words_one_digit};
constexpr array steps_qwen35{words_with_marks};
constexpr array steps_seed{words_seed};
constexpr array steps_minicpm5{three_digits, words_all_digits};
constexpr array steps_deepseek_llm{line_end, cased_letters, punctuation_deepseek, trailing_space, cjk, digits};
constexpr array steps_deepseek_coder{line_end, spaced_letters, spaced_punctuation, cjk, digit};
constexpr array steps_deepseek_v3{three_digits, han_kana, words_deepseek_v3};
constexpr array steps_tekken{words_by_case};
constexpr array steps_gpt4o{words_by_case_contracted};
constexpr array steps_bloom{between_punctuation};
constexpr array steps_viking{between_punctuation, digit};
constexpr array steps_lines{lines};

struct named_style {
  std::string_view name;
  split_style style;
};

constexpr split_style llama3{.steps = steps_llama3, .ignore_merges = true, .add_bos = true};
constexpr split_style glm4{.steps = steps_llama3, .ignore_merges = true, .default_bos = false};

constexpr auto styles = std::to_array<named_style>({
    {"", {.steps = steps_default}},
    {"default", {.steps = steps_default}},
    {"gpt-2", {.steps = steps_gpt2}},
    {"phi-2", {.steps = steps_gpt2}},
    {"mpt", {.steps = steps_gpt2}},
    {"olmo", {.steps = steps_gpt2}},
    {"jais", {.steps = steps_gpt2}},
    {"gigachat", {.steps = steps_gpt2}},
    {"a.x-4.0", {.steps = steps_gpt2}},
    {"mellum", {.steps = steps_gpt2}},
    {"exaone4", {.steps = steps_gpt2}},
    {"trillion", {.steps = steps_gpt2}},
    {"granite-docling", {.steps = steps_gpt2}},
    {"starcoder", {.steps = steps_starcoder}},
    {"refact", {.steps = steps_starcoder}},
    {"command-r", {.steps = steps_starcoder}},
    {"smollm", {.steps = steps_starcoder}},
    {"codeshell", {.steps = steps_starcoder}},
    {"exaone", {.steps = steps_starcoder}},
    {"minerva-7b", {.steps = steps_starcoder}},
    {"mellum2", {.steps = steps_starcoder}},
    {"falcon", {.steps = steps_falcon}},
    {"llama-bpe", llama3},
    {"llama3", llama3},
    {"llama-v3", llama3},
    {"falcon3", llama3},
    {"falcon-h1", llama3},
    {"pixtral", llama3},
    {"midm-2.0", llama3},
    {"lfm2", llama3},
    {"dbrx", {.steps = steps_llama3}},
    {"smaug-bpe", {.steps = steps_llama3}},
    {"chatglm-bpe", {.steps = steps_llama3, .default_bos = false}},
    {"glm4", glm4},
    {"glm5", glm4},
    {"qwen2", {.steps = steps_qwen2}},
    {"deepseek-r1-qwen", {.steps = steps_qwen2}},
    {"kormo", {.steps = steps_qwen2}},
    {"megrez", {.steps = steps_qwen2}},
    {"stablelm2", {.steps = steps_qwen2}},
    {"hunyuan", {.steps = steps_qwen2}},
    {"solar-open", {.steps = steps_qwen2}},
    {"grok-2", {.steps = steps_qwen2}},
    {"bailingmoe", {.steps = steps_qwen2}},
    {"bailingmoe2", {.steps = steps_qwen2}},
    {"llada-moe", {.steps = steps_qwen2}},
    {"qwen35", {.steps = steps_qwen35}},
    {"seed-coder", {.steps = steps_seed}},
    {"minicpm5", {.steps = steps_minicpm5, .ignore_merges = true}},
    {"deepseek-llm", {.steps = steps_deepseek_llm}},
    {"deepseek-coder", {.steps = steps_deepseek_coder}},
    {"deepseek-v3", {.steps = steps_deepseek_v3}},
    {"hunyuan-dense", {.steps = steps_deepseek_v3}},
    {"hy_v4", {.steps = steps_deepseek_v3}},
    {"joyai-llm", {.steps = steps_deepseek_v3}},
    {"tekken", {.steps = steps_tekken, .ignore_merges = true, .add_bos = true}},
    {"gpt-4o", {.steps = steps_gpt4o}},
    {"llama4", {.steps = steps_gpt4o}},
    {"kanana2", {.steps = steps_gpt4o}},
    {"minimax-m2", {.steps = steps_gpt4o}},
    {"poro-chat", {.steps = steps_bloom}},
    {"bloom", {.steps = steps_bloom}},
    {"gpt3-finnish", {.steps = steps_bloom}},
    {"viking", {.steps = steps_viking}},
});

constexpr split_style line_style{.steps = steps_lines};

}  // namespace

const split_style* find_split_style(std::string_view name) {
  const auto* const found = std::ranges::find(styles, name, &named_style::name);
  return found == styles.end() ? nullptr : &found->style;
}

const split_style& line_split_style() { return line_style; }

}  // namespace kvern
