/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

/* Sequences. The server keeps a sequence as a table of one row. What a statement reads and writes
   there is outside the transaction of its session: a rollback gives no value back, no session waits
   for the commit of another one that took values, and no snapshot is too old for it. The session
   has a transaction all the same, as the server expects of a statement that uses a table: without
   autocommit it is in one afterwards.

   A handler of a sequence runs transactions of its own. One that reads sees the newest row, and
   ends with its scan: under LOCK TABLES the server does not tell the handler of a sequence
   where a statement ends. One that writes commits with each row, as durably as the session's
   commits are, before the server hands out what the row reserves. The server's mutex of the
   sequence orders the writers; a reader takes no locks, so that two handlers of one statement
   do not wait for each other.

   Lock order: the server's mutex of the sequence -> the row. */

#include "plugin/errors.h"
#include "ha_holdfast.h"
#include "plugin/variables.h"

using namespace holdfast;

/* A scan begins, or a row is written: with what is committed now, if no scan is under way. */
int ha_holdfast::begin_alone()
{
  if (alone)
    return 0;
  THD *thd= ha_thd();
  if (!connection && !(connection= Connection::of(thd)))
    return HA_ERR_OUT_OF_MEM;
  hf_transaction_options options= {sizeof(options), HF_ISOLATION_READ_COMMITTED, false, false};
  if (hf_code code= hf_begin(database, &options, &alone); code != HF_OK)
    return fail(code);
  connection->begins_alone(alone);
  uint64_t savepoint;
  return fail(hf_statement(alone, lock_wait_limit_ms(thd), &savepoint));
}

/* The row is written, if there is no error: makes it last. */
int ha_holdfast::commit_alone(int error)
{
  if (alone && !error)
    error= fail(hf_commit(alone, flush_at_commit()));
  end_alone();
  return error;
}

/* Ends the transaction; what is not committed is undone. */
void ha_holdfast::end_alone()
{
  if (!alone)
    return;
  if (scan.cursor)
  {
    pass_shown();
    hf_cursor_release(scan.cursor);
  }
  place.leave_entry();
  hf_transaction_free(alone);
  alone= nullptr;
}
