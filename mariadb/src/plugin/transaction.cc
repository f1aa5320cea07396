/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

#include "transaction.h"
#include "binary_log.h"
#include "errors.h"
#include "prepared.h"
#include "query_cache.h"
#include "sessions.h"
#include "handler/share.h"
#include "variables.h"
#include "xid.h"
#include "mysqld.h"
#include "set_var.h"
#include "sql_lex.h"

#include <algorithm>
#include <map>
#include <mutex>

namespace holdfast {

static_assert((int) HF_ISOLATION_READ_COMMITTED == (int) ISO_READ_COMMITTED &&
              (int) HF_ISOLATION_REPEATABLE_READ == (int) ISO_REPEATABLE_READ &&
              (int) HF_ISOLATION_SERIALIZABLE == (int) ISO_SERIALIZABLE, "levels have the server's numbers");

Connection *Connection::of(THD *thd)
{
  Connection *connection= existing(thd);
  if (!connection)
  {
    connection= new (std::nothrow) Connection;
    if (connection)
    {
      thd_set_ha_data(thd, hton, connection);
      session_begins(thd, connection);
    }
  }
  return connection;
}

/* The connections that hold a transaction of XA which their session has prepared, and its xid.
   The server takes such a transaction from a session that goes or is reset, and from the worker
   of a replica, and lets any session end it from then on. It tells no engine; to a session that
   goes `close_connection` comes later, to one that is reset not at all. So the session that ends
   the transaction takes it from the connection. The mutex guards `transaction` of the
   connections that are here. */
static std::mutex held_mutex;
struct Held
{
  std::string xid;
  const void *element;  // the server's; it is there until the transaction is ended, and is compared only
};
static std::map<Connection *, Held> held;

void Connection::hold_xid(THD *thd, const std::string &xid)
{
  std::lock_guard<std::mutex> guard(held_mutex);
  held_xid= xid;
  held[this]= {xid, thd->transaction->xid_state.xid_cache_element};
}

/* Frees the transaction. One that is prepared is from then on for any session to end. */
void Connection::free_transaction()
{
  std::unique_lock<std::mutex> guard(held_mutex, std::defer_lock);
  if (!held_xid.empty())
  {
    guard.lock();
    held.erase(this);
    held_xid.clear();
  }
  hf_transaction_free(transaction);
  transaction= nullptr;
}

void Connection::leave_taken(THD *thd)
{
  if (!held_xid.empty() && (!thd->transaction->xid_state.is_explicit_XA() || xid_bytes(thd) != held_xid))
    end();
}

/* Takes the transactions of holders that the server has taken from their
   sessions, as `is_taken` says. */
template <typename Is_taken> static void take_if(Is_taken is_taken)
{
  std::lock_guard<std::mutex> guard(held_mutex);
  for (auto one= held.begin(); one != held.end();)
  {
    auto holder= one++;
    if (!is_taken(*holder))
      continue;
    hf_transaction_free(holder->first->transaction);
    holder->first->transaction= nullptr;
    held.erase(holder);
  }
}

/* Gives up transactions that sessions had prepared before they were reset: a change of a definition
   has to know that they have no session. */
static void take_from_reset_sessions()
{
  take_if([](const auto &holder) { return has_left_xa(holder.first, holder.second.element); });
}

Connection::~Connection()
{
  free_transaction();
  give_up_numbers(false);
}

/* True if a transaction lasts longer than the statement. */
static bool in_long_transaction(THD *thd)
{
  return thd_test_options(thd, OPTION_NOT_AUTOCOMMIT | OPTION_BEGIN) != 0;
}

int Connection::begin(THD *thd)
{
  leave_taken(thd);
  if (!transaction)
  {
    hf_transaction_options options;
    options.struct_size= sizeof(options);
    options.isolation= static_cast<hf_isolation>(thd_tx_isolation(thd));
    // A statement of its own reads a snapshot and is serializable by that.
    if (options.isolation == HF_ISOLATION_SERIALIZABLE && !in_long_transaction(thd))
      options.isolation= HF_ISOLATION_REPEATABLE_READ;
    options.snapshot_isolation= snapshot_isolation(thd);
    options.read_only= false;
    hf_code code= hf_begin(database, &options, &transaction);
    if (code != HF_OK)
      return server_error(code, thd);
    uint64_t number= 0;
    hf_transaction_info(transaction, &number, nullptr);
    serial= number;
    in_statement= prepared= was_ordered= false;
  }
  register_with_server(thd);
  return 0;
}

void Connection::register_with_server(THD *thd)
{
  trans_register_ha(thd, false, hton, 0);
  if (in_long_transaction(thd))
    trans_register_ha(thd, true, hton, 0);
}

static const LEX_CSTRING SERVERS_LIMIT= {STRING_WITH_LEN("lock_wait_timeout")};
static const LEX_CSTRING INNODBS_LIMIT= {STRING_WITH_LEN("innodb_lock_wait_timeout")};

/* True if the statement sets this variable for itself alone. */
static bool is_set_for_statement(THD *thd, const LEX_CSTRING &name)
{
  List_iterator_fast<set_var_base> assignments(thd->lex->stmt_var_list);
  while (set_var_base *assignment= assignments++)
  {
    const set_var *variable= dynamic_cast<const set_var *>(assignment);
    if (variable && !strcmp(variable->var->name.str, name.str))
      return true;
  }
  return false;
}

/* NOWAIT and WAIT n set two variables for the statement alone: the server's, and InnoDB's where
   InnoDB is loaded. SET STATEMENT may set the server's, which is not about rows. */
uint64_t lock_wait_limit_ms(THD *thd)
{
  static const LEX_CSTRING innodb= {STRING_WITH_LEN("InnoDB")};
  if (thd && is_set_for_statement(thd, SERVERS_LIMIT) &&
      (is_set_for_statement(thd, INNODBS_LIMIT) || !plugin_is_ready(&innodb, MYSQL_STORAGE_ENGINE_PLUGIN)))
    return 1000ULL * thd->variables.lock_wait_timeout;
  return lock_wait_timeout_ms(thd);
}

uint64_t definition_wait_limit_ms(THD *thd)
{
  // While INSTALL has the plugin begin, the server has no place for that yet.
  if (thd && hton->slot != HA_SLOT_UNDEF)
    Connection::of(thd);
  return lock_wait_limit_ms(thd);
}

int Connection::statement(THD *thd)
{
  if (int error= begin(thd))
    return error;
  uint64_t limit_ms= lock_wait_limit_ms(thd);
  if (in_statement && limit_ms == lock_wait_ms)
    return 0;
  lock_wait_ms= limit_ms;
  // A statement of a function or a trigger may have another limit.
  if (in_statement)
    return server_error(hf_lock_wait(transaction, limit_ms), thd);
  in_statement= true;
  return server_error(hf_statement(transaction, limit_ms, &statement_savepoint), thd);
}

void Connection::table_unlocked()
{
  if (locked_tables && --locked_tables == 0)
    end_statement();
}

void Connection::end_statement()
{
  in_statement= false;
  give_up_numbers(true);
}

bool Connection::has_numbers(const Numbers *numbers) const
{
  for (const auto &locked : locked_numbers)
  {
    if (locked.get() == numbers)
      return true;
  }
  return false;
}

hf_code Connection::lock_numbers(const std::shared_ptr<Numbers> &numbers)
{
  locked_numbers.push_back(numbers);
  {
    // From now on no session takes values without the lock.
    std::lock_guard<std::mutex> guard(numbers->mutex);
    numbers->statements++;
  }
  return hf_lock_name(transaction, slice(numbers->lock));
}

void Connection::give_up_numbers(bool unlocks)
{
  for (const auto &numbers : locked_numbers)
  {
    if (unlocks)
      hf_unlock_name(transaction, slice(numbers->lock));
    std::lock_guard<std::mutex> guard(numbers->mutex);
    numbers->statements--;
  }
  locked_numbers.clear();
}

void Connection::changes(const std::shared_ptr<Commits> &commits)
{
  if (std::find(changed.begin(), changed.end(), commits) == changed.end())
    changed.push_back(commits);
}

/* Of a statement that is a transaction by itself the server forgets the cached results before the
   commit: others may have had some kept since. */
void Connection::note_commit(THD *thd, bool all)
{
  for (const auto &commits : changed)
  {
    commits->last= time(nullptr);
    if (!all)
      forget_cached_results(thd, commits->cache_key);
  }
}

void Connection::end()
{
  serial= 0;
  changed.clear();
  free_transaction();
  give_up_numbers(false);
  in_statement= prepared= was_ordered= false;
  left_behind.clear();
  copy_error= 0;
}

void Connection::commit_ordered(THD *thd, bool all)
{
  if (!transaction || (!all && in_long_transaction(thd)))
    return;
  ordered= hf_commit_ordered(transaction);
  was_ordered= true;
  if (ordered == HF_OK || !prepared)
    return;
  // Before its session comes to commit it, that may wait for RESET MASTER, which waits for the
  // transaction: others must be able to commit it.
  left_behind= xid_bytes(thd);
  free_transaction();
  falls_behind_binary_log(left_behind);
}

/* Tries once more to commit what the binary log has and the engine could not commit in its turn. */
int Connection::catch_up(THD *thd, bool all)
{
  int error= server_error(catches_up_with_binary_log(left_behind) ? HF_OK : ordered, thd);
  note_commit(thd, all);
  end();
  return error;
}

/* How durable the commit of a statement is. Of rows that are copied the server takes it for
   certain: it drops those that they are copies of. */
static hf_flush flush_of(THD *thd)
{
  switch (thd_sql_command(thd)) {
  case SQLCOM_ALTER_TABLE:
  case SQLCOM_CREATE_INDEX:
  case SQLCOM_DROP_INDEX:
  case SQLCOM_OPTIMIZE:
    return HF_FLUSH_SYNC;
  default:
    return flush_at_commit();
  }
}

int Connection::commit(THD *thd, bool all)
{
  if (!left_behind.empty())
    return catch_up(thd, all);
  if (!transaction)
    return 0;
  if (!all && in_long_transaction(thd))
  {
    end_statement();
    return 0;
  }
  if (int error= copy_error)
  {
    rollback(thd, true);
    // In general the statement has told it, and a commit that fails would have the server say it
    // once more.
    return thd->is_error() ? 0 : error;
  }
  // What is prepared is durable, and the binary log decides about it: no need to wait for the
  // disk again.
  int error= server_error(hf_commit(transaction, prepared && was_ordered ? HF_FLUSH_LAZY : flush_of(thd)), thd);
  const bool is_left= error && !held_xid.empty();
  note_commit(thd, all);
  end();
  if (is_left)
    leave_to_all_sessions(thd);
  return error;
}

int Connection::rollback(THD *thd, bool all)
{
  // The server knows that the statement has failed. What came before it can be committed.
  copy_error= 0;
  if (!transaction)
    return 0;
  if (!all && in_long_transaction(thd))
  {
    hf_code code= hf_rollback_to(transaction, statement_savepoint);
    end_statement();
    return server_error(code, thd);
  }
  int error= server_error(hf_rollback(transaction), thd);
  const bool is_left= error && !held_xid.empty();
  end();
  if (is_left)
    leave_to_all_sessions(thd);
  return error;
}

int Connection::prepare(THD *thd, bool all)
{
  if (!transaction)
    return 0;
  if (!all && in_long_transaction(thd))
  {
    end_statement();
    return 0;
  }
  std::string bytes= xid_bytes(thd);
  hf_code code= hf_prepare(transaction, slice(bytes), flush_at_commit());
  if (code == HF_OK)
  {
    prepared= true;
    // As InnoDB: between XA PREPARE and its end it may be long. Before any other commit the locks
    // keep the order of the binary log.
    if (thd_sql_command(thd) == SQLCOM_XA_PREPARE)
    {
      hold_xid(thd, bytes);
      code= hf_release_reads(transaction);
    }
  }
  return server_error(code, thd);
}

void Connection::begins_alone(hf_transaction *alone)
{
  uint64_t number= 0;
  hf_transaction_info(alone, &number, nullptr);
  serial_alone= number;
}

void Connection::kill()
{
  for (uint64_t number : {serial.load(), serial_alone.load()})
  {
    if (number)
      hf_kill(database, number);
  }
}

/* The hooks. */

static int close_connection(handlerton *, THD *thd)
{
  Connection *connection= Connection::existing(thd);
  // Once no connection needs it, a plugin that was uninstalled closes the database.
  if (connection)
    connection->end();
  // A change of a definition finds what it has prepared until then.
  session_ends(connection);
  thd_set_ha_data(thd, hton, nullptr);
  delete connection;
  return 0;
}

static void kill_query(handlerton *, THD *thd, enum thd_kill_levels)
{
  if (Connection *connection= Connection::existing(thd))
    connection->kill();
  // A session that changes a definition may wait without a transaction.
  hf_wake_waits(database);
}

static int commit(handlerton *, THD *thd, bool all)
{
  Connection *connection= Connection::existing(thd);
  return connection ? connection->commit(thd, all) : 0;
}

static void commit_ordered(handlerton *, THD *thd, bool all)
{
  if (Connection *connection= Connection::existing(thd))
    connection->commit_ordered(thd, all);
}

static int rollback(handlerton *, THD *thd, bool all)
{
  Connection *connection= Connection::existing(thd);
  return connection ? connection->rollback(thd, all) : 0;
}

static int prepare(handlerton *, THD *thd, bool all)
{
  Connection *connection= Connection::existing(thd);
  return connection ? connection->prepare(thd, all) : 0;
}

static int savepoint_set(handlerton *, THD *thd, void *savepoint)
{
  Connection *connection= Connection::existing(thd);
  if (!connection || !connection->transaction)
    return 0;
  uint64_t point= 0;
  int error= server_error(hf_savepoint(connection->transaction, true, &point), thd);
  memcpy(savepoint, &point, sizeof(point));
  return error;
}

static int savepoint_rollback(handlerton *, THD *thd, void *savepoint)
{
  Connection *connection= Connection::existing(thd);
  if (!connection || !connection->transaction)
    return 0;
  uint64_t point;
  memcpy(&point, savepoint, sizeof(point));
  return server_error(hf_rollback_to(connection->transaction, point), thd);
}

/* True if tables that were first used after the savepoint are free for others then. The rollback
   keeps the locks of rows, so that a table with some has to stay. */
static bool savepoint_rollback_can_release_mdl(handlerton *, THD *thd)
{
  Connection *connection= Connection::existing(thd);
  bool holds= false;
  if (connection && connection->transaction && hf_holds_locks(connection->transaction, &holds) != HF_OK)
    return false;
  return !holds;
}

static int savepoint_release(handlerton *, THD *, void *)
{
  return 0;
}

static int start_consistent_snapshot(handlerton *, THD *thd)
{
  Connection *connection= Connection::of(thd);
  if (!connection)
    return HA_ERR_OUT_OF_MEM;
  if (int error= connection->begin(thd))
    return error;
  // At other levels nothing would read it: reads take one for each statement, or lock.
  if (thd_tx_isolation(thd) != ISO_REPEATABLE_READ)
    return 0;
  return server_error(hf_snapshot(connection->transaction), thd);
}

/* Of the X/Open specification. */
static const int XA_OK= 0, XAER_RMERR= -3, XAER_NOTA= -4;

hf_code check_unprepared(const std::string &table)
{
  take_from_reset_sessions();
  return hf_table_check_unprepared(database, slice(table), definition_wait_limit_ms(current_thd));
}

/* Says that a prepared transaction could not be ended. The server looks for an error of the
   session, and not at what it is answered: without one it would forget the xid. */
static int cannot_end(hf_code code)
{
  logged_error(code, "ending a prepared transaction");
  if (THD *thd= current_thd)
  {
    my_error(ER_XAER_RMERR, MYF(0));
    push_warning_printf(thd, Sql_condition::WARN_LEVEL_WARN, ER_UNKNOWN_ERROR, "Holdfast: %s", hf_error_message());
  }
  return XAER_RMERR;
}

/* Ends a prepared transaction of an earlier run, or of a connection that is gone. */
static int end_by_xid(XID *xid, bool commits)
{
  std::string bytes= xid_bytes(xid);
  take_if([&](const auto &holder) { return holder.second.xid == bytes; });
  hf_transaction *transaction= nullptr;
  hf_code code= hf_adopt(database, slice(bytes), &transaction);
  if (code == HF_INVALID) // There is none of that xid.
    code= hf_adopt(database, slice(long_xid_bytes(xid)), &transaction);
  if (code == HF_INVALID)
    return XAER_NOTA;
  if (code == HF_OK)
    code= commits ? hf_commit(transaction, HF_FLUSH_SYNC) : hf_rollback(transaction);
  int error= code == HF_OK ? XA_OK : cannot_end(code);
  hf_transaction_free(transaction);
  if (commits)
    forget_cached_results();
  return error;
}

static int commit_by_xid(handlerton *, XID *xid)
{
  return end_by_xid(xid, true);
}

static int rollback_by_xid(handlerton *, XID *xid)
{
  return end_by_xid(xid, false);
}

static bool flush_logs(handlerton *)
{
  catch_up_with_binary_log();
  return logged_error(hf_flush_log(database), "flushing the log") != 0;
}

void set_transaction_hooks(handlerton *hton)
{
  hton->close_connection= close_connection;
  hton->kill_query= kill_query;
  hton->commit= commit;
  hton->commit_ordered= commit_ordered;
  hton->rollback= rollback;
  hton->prepare= prepare;
  // The server that runs counts its own part of a savepoint in the offset that it gives.
  hton->savepoint_offset= sizeof(uint64_t) + (server_has_loaded_plugins() ? sizeof(SAVEPOINT) : 0);
  hton->savepoint_set= savepoint_set;
  hton->savepoint_rollback= savepoint_rollback;
  hton->savepoint_rollback_can_release_mdl= savepoint_rollback_can_release_mdl;
  hton->savepoint_release= savepoint_release;
  hton->start_consistent_snapshot= start_consistent_snapshot;
  hton->recover= recover;
  hton->commit_by_xid= commit_by_xid;
  hton->rollback_by_xid= rollback_by_xid;
  hton->commit_checkpoint_request= commit_checkpoint_request;
  hton->flush_logs= flush_logs;
  hton->pre_shutdown= catch_up_with_binary_log;
}

} // namespace holdfast
