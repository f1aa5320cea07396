/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

#include "errors.h"
#include "status.h"
#include "transaction.h"
#include "variables.h"

namespace holdfast {

static int plain_error(hf_code code, int not_found)
{
  switch (code) {
  case HF_OK:
    return 0;
  case HF_NOT_FOUND:
    return not_found;
  case HF_DUPLICATE_KEY:
    return HA_ERR_FOUND_DUPP_KEY;
  case HF_LOCK_TIMEOUT:
  case HF_WOULD_BLOCK:
    return HA_ERR_LOCK_WAIT_TIMEOUT;
  case HF_DEADLOCK:
    return HA_ERR_LOCK_DEADLOCK;
  case HF_INTERRUPTED:
    return HA_ERR_ABORTED_BY_USER;
  case HF_CONFLICT:
    return HA_ERR_RECORD_CHANGED;
  case HF_SNAPSHOT_TOO_OLD:
    return HA_ERR_TABLE_DEF_CHANGED;
  case HF_KEY_TOO_LONG:
    return HA_ERR_INDEX_COL_TOO_LONG;
  case HF_VALUE_TOO_LONG:
    return HA_ERR_TO_BIG_ROW;
  case HF_DISK_FULL:
    return HA_ERR_RECORD_FILE_FULL;
  case HF_DAMAGED:
    return HA_ERR_CRASHED;
  case HF_READ_ONLY:
    return HA_ERR_TABLE_READONLY;
  case HF_TABLE_NOT_FOUND:
    return HA_ERR_NO_SUCH_TABLE;
  case HF_TABLE_EXISTS:
    return HA_ERR_TABLE_EXIST;
  case HF_LIMIT_REACHED:
  case HF_IO:
  case HF_POISONED:
  case HF_INVALID:
  case HF_CLOSED:
  case HF_CANNOT_OPEN:
  case HF_OTHER:
  case HF_PANIC:
    break;
  }
  return HA_ERR_GENERIC;
}

void say_given_up(hf_transaction *transaction)
{
  bool given_up= false;
  if (hf_snapshot_is_given_up(transaction, &given_up) == HF_OK && given_up)
    my_printf_error(ER_TABLE_DEF_CHANGED, "Holdfast: the snapshot of the transaction was given up, because the versions of rows that it "
                    "needs reached holdfast_version_limit; roll back, begin again, or start the server with a higher limit", MYF(0));
}

int server_error(hf_code code, THD *thd, int not_found)
{
  int error= plain_error(code, not_found);
  Connection *connection= thd && code == HF_SNAPSHOT_TOO_OLD ? Connection::existing(thd) : nullptr;
  if (connection && connection->transaction)
    say_given_up(connection->transaction);
  if (code == HF_DEADLOCK && print_all_deadlocks())
    log_deadlock();
  // The engine has rolled the transaction back; the server is to do the same with the other engines
  // and the binary log.
  if (code == HF_DEADLOCK || code == HF_CONFLICT)
    thd->mark_transaction_to_rollback(true);
  // As with InnoDB, no handler of a function or trigger goes on behind it: the server does not undo
  // a statement there by itself.
  else if (error == HA_ERR_LOCK_WAIT_TIMEOUT)
    thd->is_fatal_sub_stmt_error|= thd->in_sub_stmt != 0;
  // A transaction that is too large is no concern of the error log.
  else if (error == HA_ERR_GENERIC || error == HA_ERR_CRASHED)
    my_printf_error(ER_UNKNOWN_ERROR, "Holdfast: %s", MYF(code == HF_LIMIT_REACHED ? 0 : ME_ERROR_LOG), hf_error_message());
  return error;
}

void say_wait_ended(hf_code code, THD *thd)
{
  if (code == HF_LOCK_TIMEOUT)
    my_error(ER_LOCK_WAIT_TIMEOUT, MYF(0));
  if (code == HF_INTERRUPTED)
    thd->send_kill_message();
}

int logged_error(hf_code code, const char *doing)
{
  if (code != HF_OK)
    sql_print_error("Holdfast: %s: %s", doing, hf_error_message());
  return plain_error(code, HA_ERR_GENERIC);
}

} // namespace holdfast
