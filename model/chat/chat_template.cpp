#include "model/chat/chat_template.hpp"

#include <fmt/format.h>

#include <ctime>
#include <mutex>
#include <new>
#include <stdexcept>
#include <utility>

#include "model/chat/chat_prompt.hpp"
#include "model/chat/evaluator.hpp"
#include "model/chat/parser.hpp"

namespace kvern::chat {
namespace {

class compiled final : public chat_template {
 public:
  explicit compiled(std::unique_ptr<const ast::tree> tree) : tree_(std::move(tree)) {}

  result<std::vector<rendered_part>> render(const value& context, const render_limits& limits,
                                            std::int64_t now) const override {
    try {
      runtime rt(limits, now != 0 ? now : static_cast<std::int64_t>(std::time(nullptr)));
      const text whole = evaluator(*tree_, rt, context).run();
      std::vector<rendered_part> parts;
      whole.each_run([&](std::string_view bytes, bool trusted) { parts.push_back({std::string(bytes), trusted}); });
      return parts;
    } catch (template_failure& f) {
      return fail(f.code, std::move(f.message));
    } catch (const std::bad_alloc&) {
      return fail("template_limit", "the chat template takes more memory than there is");
    } catch (const std::length_error&) {
      return fail("template_limit", "a string or list of the chat template is too long");
    }
  }

  template_traits traits() const override {
    std::call_once(traits_found_, [this] { traits_ = find_traits(*this); });
    return traits_;
  }

 private:
  std::unique_ptr<const ast::tree> tree_;
  mutable std::once_flag traits_found_;
  mutable template_traits traits_;
};

}  // namespace

result<std::shared_ptr<const chat_template>> chat_template::compile(std::string_view source) {
  constexpr std::size_t max_source = 1u << 20;
  if (source.size() > max_source) {
    return fail("template_syntax", fmt::format("the chat template is longer than {} bytes", max_source));
  }
  auto tree = parse(source);
  if (!tree) return std::unexpected(std::move(tree.error()));
  return std::make_shared<const compiled>(std::move(*tree));
}

}  // namespace kvern::chat
