#pragma once

#include <span>
#include <string_view>

namespace kvern {

/// How a byte-level BPE vocabulary wants its text cut into words, and the defaults that go with it.
struct split_style {
  /// Expressions for `pretokenizer`, applied one after the other to every piece that the ones before have left.
  std::span<const std::string_view> steps;
  /// A word that is a token as a whole is taken before any merge.
  bool ignore_merges = false;
  /// BOS is put in front unless the file says otherwise.
  bool add_bos = false;
  /// Whether a file that names no BOS has the usual default one.
  bool default_bos = true;
};

/// The style that `tokenizer.ggml.pre` names, or null. Lives for ever. "" is "default": files from before there was
/// such a key.
const split_style* find_split_style(std::string_view name);

/// Lines, and runs of line ends, as BPE over raw UTF-8 wants them.
const split_style& line_split_style();

}  // namespace kvern
