#pragma once

#include <caf/typed_event_based_actor.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "actors/gate.hpp"
#include "actors/messages.hpp"
#include "actors/session.hpp"

namespace kvern::actors {

/// Knows all sessions: makes and finds them, keeps tenants apart, and passes on what is for a session. Does nothing
/// long itself.
class front_desk : public front_desk_actor::base {
 public:
  front_desk(caf::actor_config& config, std::shared_ptr<const session_context> context,
             std::int32_t max_sessions_per_tenant, gate doors, parcel<gate::pass> pass);

  behavior_type make_behavior() override;
  void on_exit() override;

 private:
  /// A session, named or serving a single request, by its sequence.
  struct entry {
    session_actor actor;
    const std::string* id = nullptr;  ///< key in `names_`; null: none, or no more
    std::string tenant;
    gate use = {};               ///< requests and commands that it has
    std::uint64_t last_use = 0;  ///< when the latest came, in order
  };

  void start(pending_request request);
  void create(create_session& m);
  void import(import_session& m);
  void fork(named<fork_session>& m);
  result<entry*> make_named(const std::string& tenant, const session_settings& settings);
  result<void> make_room(const std::string& tenant);
  std::shared_ptr<gate::pass> use(entry& e);
  void list(const std::string& tenant, port<std::vector<session_info>> to);
  void command(named<session_command>& m);
  template <class T>
  entry* find_for(named<T>& m);
  template <class T>
  void pass_on(named<T>& m);
  void stop(std::promise<void> when_idle);
  void forget(caf::actor_id session);
  void remove_name(entry& e);
  void check_stopped();
  entry& spawn_session(std::string id, const std::string& tenant, const session_settings& settings);
  entry* find(const std::string& tenant, const std::string& id);
  std::optional<error> closed() const;

  std::shared_ptr<const session_context> context_;
  const std::int32_t max_sessions_;
  gate doors_;
  gate::pass pass_;
  std::unordered_map<gpu::sequence_id, entry> sessions_;
  std::unordered_map<caf::actor_id, gpu::sequence_id> actors_;
  std::unordered_map<std::string, gpu::sequence_id> names_;
  std::unordered_map<std::string, std::int32_t> named_per_tenant_;
  gpu::sequence_id last_sequence_ = 0;
  std::uint64_t uses_ = 0;
  std::optional<error> worker_gone_;
  bool stopping_ = false;
  std::vector<std::promise<void>> waiting_;  ///< for the last session to end
};

}  // namespace kvern::actors
