#include "daemon/cli/terminal.hpp"

#include <gtest/gtest.h>

namespace kvern::cli {
namespace {

TEST(printable, a_model_cannot_drive_the_terminal) {
  EXPECT_EQ(printable("plain\n\ttext \xc3\xa9\xf0\x9f\x98\x80"), "plain\n\ttext \xc3\xa9\xf0\x9f\x98\x80");
  EXPECT_EQ(printable("\x1b]0;title\x07"), "\xef\xbf\xbd]0;title\xef\xbf\xbd");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\xef\xbf\xbd"
            "31m");
  EXPECT_EQ(printable("\r\b\x7f"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
}

TEST(progress_line, shows_the_share_and_fits) {
  EXPECT_EQ(progress_line(0, 8, 40), "prompt [" + std::string(21, '-') + "]   0% 0/8");
  EXPECT_EQ(progress_line(8, 8, 40), "prompt [" + std::string(21, '#') + "] 100% 8/8");
  EXPECT_EQ(progress_line(5, 10, 20), "prompt  50% 5/10");
  EXPECT_EQ(progress_line(0, 0, 20), "prompt   0% 0/1");
  for (int columns = 1; columns < 200; ++columns) {
    const auto line = progress_line(1234, 56789, columns);
    EXPECT_TRUE(line.find('[') == std::string::npos || static_cast<int>(line.size()) <= columns) << columns;
  }
}

}  // namespace
}  // namespace kvern::cli
