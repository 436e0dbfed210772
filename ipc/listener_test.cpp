#include "ipc/listener.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "ipc/raw_client.hpp"

namespace kvern::ipc {
namespace {

class listeners : public ::testing::Test {
 protected:
  std::string path() const { return folder_.file("s"); }

  static mode_t mode_of(const std::string& path) {
    struct stat s {};
    EXPECT_EQ(::lstat(path.c_str(), &s), 0);
    return s.st_mode & 07777;
  }
  /// A socket file that nobody listens on.
  static void leave_stale(const std::string& path) {
    const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    ASSERT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    ::close(fd);
  }

  scratch_folder folder_;
};

TEST_F(listeners, give_the_file_its_mode_whatever_the_umask) {
  const mode_t before = ::umask(077);
  {
    const auto l = listener::bind(path(), 0666);
    ASSERT_TRUE(l) << l.error().message;
    EXPECT_EQ(mode_of(path()), 0666u);
  }
  ::umask(0);
  {
    const auto l = listener::bind(path(), 0600);
    ASSERT_TRUE(l) << l.error().message;
    EXPECT_EQ(mode_of(path()), 0600u);
  }
  ::umask(before);
  EXPECT_FALSE(std::filesystem::exists(path()));
}

TEST_F(listeners, replace_a_stale_socket) {
  leave_stale(path());
  const auto l = listener::bind(path(), 0600);
  ASSERT_TRUE(l) << l.error().message;
  EXPECT_TRUE(raw_client(path()).connected());
}

TEST_F(listeners, leave_a_live_socket_alone) {
  const auto l = listener::bind(path(), 0600);
  ASSERT_TRUE(l);
  const auto second = listener::bind(path(), 0600);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, "socket_in_use");
  EXPECT_TRUE(raw_client(path()).connected());
}

TEST_F(listeners, leave_other_files_alone) {
  std::ofstream(path()) << "precious";
  const auto l = listener::bind(path(), 0600);
  ASSERT_FALSE(l);
  EXPECT_EQ(l.error().code, "socket_path_invalid");
  std::string content;
  std::ifstream(path()) >> content;
  EXPECT_EQ(content, "precious");

  std::filesystem::create_symlink(folder_.file("elsewhere"), folder_.file("link"));
  EXPECT_EQ(listener::bind(folder_.file("link"), 0600).error().code, "socket_path_invalid");
  EXPECT_TRUE(std::filesystem::is_symlink(folder_.file("link")));
}

TEST_F(listeners, say_what_is_wrong_with_a_path) {
  const auto too_long = listener::bind(folder_.file(std::string(120, 'x')), 0600);
  ASSERT_FALSE(too_long);
  EXPECT_EQ(too_long.error().code, "socket_path_invalid");
  EXPECT_NE(too_long.error().message.find("107"), std::string::npos);
  const auto nowhere = listener::bind(folder_.file("no/such/s"), 0600);
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().code, "socket_path_invalid");
  EXPECT_NE(nowhere.error().message.find("no/such"), std::string::npos);
  EXPECT_EQ(listener::bind("", 0600).error().code, "socket_path_invalid");
  EXPECT_EQ(listener::bind(std::string("/tmp/a\0b", 8), 0600).error().code, "socket_path_invalid");
  // 107 bytes are not too many.
  std::string exact = folder_.file("");
  exact += std::string(107 - exact.size(), 'x');
  EXPECT_TRUE(listener::bind(exact, 0600));
}

TEST_F(listeners, remove_only_what_is_theirs) {
  auto first = listener::bind(path(), 0600);
  ASSERT_TRUE(first);
  std::filesystem::remove(path());
  const auto second = listener::bind(path(), 0600);
  ASSERT_TRUE(second);
  first->remove_file();
  EXPECT_TRUE(std::filesystem::exists(path()));
}

TEST_F(listeners, that_start_at_once_are_one) {
  for (int round = 0; round < 20; ++round) {
    leave_stale(path());
    std::vector<std::optional<result<listener>>> all(4);
    std::vector<std::thread> threads;
    for (auto& l : all) threads.emplace_back([&] { l.emplace(listener::bind(path(), 0600)); });
    for (auto& t : threads) t.join();
    int bound = 0;
    for (auto& l : all) bound += l->has_value() ? 1 : 0;
    EXPECT_EQ(bound, 1);
    EXPECT_TRUE(raw_client(path()).connected());
    all.clear();
    EXPECT_FALSE(std::filesystem::exists(path()));
  }
}

TEST_F(listeners, take_over_only_listening_unix_sockets) {
  auto l = listener::bind(path(), 0600);
  ASSERT_TRUE(l);
  {
    const auto adopted = listener::adopt(::dup(l->fd()));
    ASSERT_TRUE(adopted);
    EXPECT_NE(::fcntl(adopted->fd(), F_GETFD) & FD_CLOEXEC, 0);
    EXPECT_NE(::fcntl(adopted->fd(), F_GETFL) & O_NONBLOCK, 0);
  }
  EXPECT_TRUE(std::filesystem::exists(path()));
  EXPECT_FALSE(listener::adopt(::open("/dev/null", O_RDONLY)));
  EXPECT_FALSE(listener::adopt(::socket(AF_UNIX, SOCK_STREAM, 0)));
  EXPECT_FALSE(listener::adopt(::socket(AF_INET, SOCK_STREAM, 0)));
  EXPECT_FALSE(listener::adopt(-1));
  const int unfit = ::open("/dev/null", O_RDONLY);
  EXPECT_FALSE(listener::adopt(unfit));
  EXPECT_EQ(::fcntl(unfit, F_GETFD), -1);  // closed
}

}  // namespace
}  // namespace kvern::ipc
