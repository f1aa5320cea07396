/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

#include "prepared.h"
#include "errors.h"
#include "xid.h"
#include "mysqld.h"

#include <algorithm>

/* Of the server; no header declares it. */
extern my_bool plugins_are_initialized;

namespace holdfast {

bool server_has_loaded_plugins()
{
  return plugins_are_initialized;
}

extern "C" void collect_xid(void *context, hf_slice bytes)
{
  XID xid;
  if (xid_from_bytes(bytes, &xid))
    static_cast<std::vector<XID> *>(context)->push_back(xid);
}

/* The names of the transactions that are prepared and have no session. */
static std::vector<XID> prepared_xids()
{
  std::vector<XID> xids;
  logged_error(hf_prepared(database, collect_xid, &xids), "listing prepared transactions");
  return xids;
}

/* The server, which starts, asks until there are fewer than it has room for: each is named once. */
int recover(handlerton *, XID *xids, uint room)
{
  static std::vector<XID> left;
  static bool goes_on= false;
  if (!goes_on)
    left= prepared_xids();
  const size_t found= MY_MIN(left.size(), (size_t) room);
  std::copy(left.end() - found, left.end(), xids);
  left.resize(left.size() - found);
  goes_on= found == room;
  return (int) found;
}

static void say_unlisted()
{
  sql_print_error("Holdfast: no memory to tell the server of a prepared transaction");
}

void tell_server_of_prepared()
{
  if (!server_has_loaded_plugins())
    return;
  size_t of_binary_log= 0;
  std::vector<XID> xids= prepared_xids();
  for (XID &xid : xids)
  {
    of_binary_log+= xid.get_my_xid() != 0;
    if (xid_cache_insert(&xid))
      say_unlisted();
  }
  if (!xids.empty())
    sql_print_information("Holdfast: found %zu prepared transactions, which XA RECOVER lists", xids.size());
  if (of_binary_log)
    sql_print_warning("Holdfast: %zu of them were being committed when the server ended, and the binary log could not decide "
                      "about them when it started without the engine: after SET SESSION sql_log_bin = 0, XA COMMIT those "
                      "that the binary log has, and XA ROLLBACK the others", of_binary_log);
}

void say_what_stays_prepared()
{
  // A server that starts again asks.
  const size_t count= abort_loop || !database ? 0 : prepared_xids().size();
  if (!count)
    return;
  static const char TEXT[]= "Holdfast: %zu prepared transactions stay as they are: until the engine is installed again, XA COMMIT "
    "and XA ROLLBACK of them do nothing";
  sql_print_warning(TEXT, count);
  THD *thd= current_thd;
  if (thd && thd_sql_command(thd) == SQLCOM_UNINSTALL_PLUGIN)
    push_warning_printf(thd, Sql_condition::WARN_LEVEL_WARN, ER_UNKNOWN_ERROR, TEXT, count);
}

/* The xid of a session that has none of its own: no client gives this one. */
static XID stand_in_for(THD *thd)
{
  std::string text= "Holdfast " + std::to_string(thd_get_thread_id(thd)) + " " + std::to_string(thd->query_id);
  XID xid;
  xid.set(1, text.data(), (long) text.size(), nullptr, 0);
  return xid;
}

/* The server removes from its list what the session has there: until then that is a stand-in. */
void leave_to_all_sessions(THD *thd)
{
  XID_STATE &own= thd->transaction->xid_state;
  if (!own.is_explicit_XA())
    return;
  XID xid= *own.get_xid();
  const std::vector<XID> xids= prepared_xids();
  if (std::none_of(xids.begin(), xids.end(), [&](const XID &one) { return xid_bytes(&one) == xid_bytes(&xid); }))
    return;
  XID stand_in= stand_in_for(thd);
  XID_STATE other= own;
  if (xid_cache_insert(thd, &other, &stand_in))
    return say_unlisted();
  xid_cache_delete(thd, &own);
  own= other;
  if (xid_cache_insert(&xid))
    say_unlisted();
}

} // namespace holdfast
