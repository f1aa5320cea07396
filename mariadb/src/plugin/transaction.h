/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

/* The transaction of a connection, and the server's transaction hooks.

   The state hangs on the connection (`thd_get_ha_data`), never on a thread. The engine's
   transaction begins with the first statement that touches a table of it, and ends with the
   server's commit or rollback of all of it, or of the statement in autocommit mode. */

#ifndef HOLDFAST_TRANSACTION_H
#define HOLDFAST_TRANSACTION_H

#include "server.h"

#include <atomic>

#include <memory>

class ha_holdfast;

namespace holdfast {

struct Commits;
struct Link;
struct Numbers;

/* A row was changed or deleted, and what refers to it follows. */
struct Action
{
  const void *updated;          // the table whose row an UPDATE changes, null for a DELETE
  const ha_holdfast *parent;    // has the row
  const Link *link;
  const uchar *before, *after;  // records of the row; no `after` for a DELETE
};

class Connection
{
public:
  /* The connection's state, made when it is needed. */
  static Connection *of(THD *thd);
  static Connection *existing(THD *thd)
  {
    return static_cast<Connection *>(thd_get_ha_data(thd, hton));
  }

  /* A statement uses a table: begins transaction and statement where that was not
     done, and tells the server. */
  int statement(THD *thd);

  /* A table of the statement was locked or unlocked. */
  void table_locked() { locked_tables++; }
  void table_unlocked();

  /* A table is done with what it has read for a statement, or for a part of one. A transaction
     that was prepared by XA reads no more, and another session may be freeing it: the server may
     have taken it from this one. */
  static void table_reset(THD *thd)
  {
    Connection *user= thd ? existing(thd) : nullptr;
    if (user && user->held_xid.empty() && user->transaction && !user->in_statement)
      hf_statement_end(user->transaction);
  }

  /* The statement locks the AUTO_INCREMENT values of a table until it ends. */
  hf_code lock_numbers(const std::shared_ptr<Numbers> &numbers);
  bool has_numbers(const Numbers *numbers) const;

  /* The transaction changes rows of a table: its commit is noted there. */
  void changes(const std::shared_ptr<Commits> &commits);

  int begin(THD *thd);
  int commit(THD *thd, bool all);
  void commit_ordered(THD *thd, bool all);
  int rollback(THD *thd, bool all);
  int prepare(THD *thd, bool all);
  void kill();

  /* Gives up the transaction: what is neither committed nor prepared is undone. */
  void end();

  /* The same of one that the session has prepared and that the server has taken from it: the
     session was reset, and goes on. */
  void leave_taken(THD *thd);

  ~Connection();

  /* The number of its transaction; 0 if there is none. */
  uint64_t number() const { return serial; }

  /* A handler of a sequence begins a transaction of its own. */
  void begins_alone(hf_transaction *alone);

  hf_transaction *transaction= nullptr;

  /* The table that was created last, and by which statement: it drops
     the table if it fails later. */
  std::string created;
  query_id_t created_by= 0;

  /* Why the target of a copy could not be filled: until the server undoes the statement, the
     transaction cannot be committed. */
  int copy_error= 0;

  /* The actions of FOREIGN KEYs that are under way, one below the other. */
  std::vector<Action> chain;

  /* Rows that have followed others so far. */
  uint64_t followed= 0;

  /* The key, by the server's number, that a row was last refused for. The server may ask another
     handler of the table about it: that of another partition. */
  uint duplicate_key= MAX_KEY;

  /* Where a row that was to follow its parent was last refused for a key that is there. */
  std::string duplicate_child, duplicate_child_key;

private:
  void hold_xid(THD *thd, const std::string &xid);
  void free_transaction();
  void register_with_server(THD *thd);
  void end_statement();
  void give_up_numbers(bool unlocks);
  void note_commit(THD *thd, bool all);
  int catch_up(THD *thd, bool all);

  std::vector<std::shared_ptr<Numbers>> locked_numbers;
  std::vector<std::shared_ptr<Commits>> changed;
  std::atomic<uint64_t> serial{0}, serial_alone{0};
  uint64_t statement_savepoint= 0;
  /* How long the statement waits for a lock. */
  uint64_t lock_wait_ms= 0;
  uint locked_tables= 0;
  bool in_statement= false;
  bool prepared= false;
  std::string held_xid;         // of XA PREPARE; empty without
  hf_code ordered= HF_OK;
  bool was_ordered= false;
  std::string left_behind;      // xid of what the binary log has and the engine could not commit
};

/* Sets the transaction hooks of the handlerton. */
void set_transaction_hooks(handlerton *hton);

/* How long the statement waits for a lock. */
uint64_t lock_wait_limit_ms(THD *thd);

/* The same for a change of a definition, which needs no transaction. The server says only of
   connections that the engine knows when they are killed: from now on it knows this one. */
uint64_t definition_wait_limit_ms(THD *thd);

/* HF_LOCK_TIMEOUT if a prepared transaction without a session has changed the table. Waits
   for a session that ends one. */
hf_code check_unprepared(const std::string &table);

} // namespace holdfast

#endif
