/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

#include "sessions.h"
#include "transaction.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

/* Of the server; no header declares them. */
extern "C" int thd_need_wait_reports(const MYSQL_THD thd);
extern "C" int thd_rpl_deadlock_check(MYSQL_THD thd, MYSQL_THD other_thd);
extern "C" int thd_is_slave(const MYSQL_THD thd);

namespace holdfast {

/* Characters of a statement that are shown: as many as InnoDB shows. */
static const size_t QUERY_SHOWN= 1024;

static std::mutex mutex;
static std::unordered_map<const Connection *, THD *> sessions;

void session_begins(THD *thd, const Connection *connection)
{
  std::lock_guard<std::mutex> guard(mutex);
  sessions[connection]= thd;
}

void session_ends(const Connection *connection)
{
  std::lock_guard<std::mutex> guard(mutex);
  sessions.erase(connection);
}

/* What the session's thread does to this state meanwhile makes no difference: a transaction that it
   ends is given back before. */
bool has_left_xa(const Connection *connection, const void *element)
{
  std::lock_guard<std::mutex> guard(mutex);
  auto session= sessions.find(connection);
  return session != sessions.end() && session->second->default_transaction.xid_state.xid_cache_element != element;
}

static void append(hf_buffer *buffer, const char *text)
{
  hf_buffer_append(buffer, slice(text, strlen(text)));
}

/* Where the transactions were found when all sessions were looked at last. A
   connection may have gone since. */
static std::unordered_map<uint64_t, const Connection *> last_found;

/* The session that runs the transaction with a number. A listing asks about one
   after the other, and with thousands of sessions they are not all looked at for
   each. The caller holds the mutex. */
static THD *session_of(uint64_t serial)
{
  auto known= last_found.find(serial);
  auto session= known == last_found.end() ? sessions.end() : sessions.find(known->second);
  if (session != sessions.end() && session->first->number() == serial)
    return session->second;
  THD *found= nullptr;
  last_found.clear();
  for (const auto &one : sessions)
  {
    uint64_t number= one.first->number();
    if (number)
      last_found[number]= one.first;
    if (number == serial)
      found= one.second;
  }
  return found;
}

/* The order in which the workers of a parallel replica commit is fixed: if the one that has to come
   first is going to wait for another one, the server ends that one, and it starts again. With a
   binary log the server notes that a transaction waited, and does not let the one that it waits for
   linger in the hope of a larger group. */
extern "C" hf_wait_interest wait_interest(void *)
{
  THD *thd= current_thd;
  if (!thd || !thd_need_wait_reports(thd))
    return HF_WAIT_INTEREST_NONE;
  return thd_is_slave(thd) ? HF_WAIT_INTEREST_ALL : HF_WAIT_INTEREST_HOLDERS;
}

extern "C" void session_waits(void *, uint64_t waiter, const uint64_t *others, size_t count)
{
  THD *thd= current_thd;
  Connection *connection= Connection::existing(thd);
  if (!connection || connection->number() != waiter)
    return;
  bool told= false;
  std::lock_guard<std::mutex> guard(mutex);
  for (const auto &session : sessions)
  {
    if (std::binary_search(others, others + count, session.first->number()))
    {
      thd_rpl_deadlock_check(thd, session.second);
      told= true;
    }
  }
  if (!told && count)
    thd_rpl_deadlock_check(thd, nullptr);
}

/* The server's thread pool runs others meanwhile. */
extern "C" void session_sleeps(void *, bool begins)
{
  if (begins)
    thd_wait_begin(nullptr, THD_WAIT_ROW_LOCK);
  else
    thd_wait_end(nullptr);
}

/* Asked by the session's own thread. */
extern "C" bool session_gives_up(void *)
{
  THD *thd= current_thd;
  return thd && thd_kill_level(thd) != THD_IS_NOT_KILLED;
}

extern "C" bool find_session(void *, uint64_t serial, hf_session *out)
{
  std::lock_guard<std::mutex> guard(mutex);
  if (THD *thd= session_of(serial))
  {
    out->id= thd_get_thread_id(thd);
    char text[2 * QUERY_SHOWN];
    thd_query_safe(thd, text, QUERY_SHOWN);
    append(out->query, text);
    append(out->description, thd_get_error_context_description(thd, text, sizeof(text), QUERY_SHOWN));
    return true;
  }
  return false;
}

hf_code answer_about_sessions()
{
  hf_code code= hf_set_sessions(database, find_session, nullptr);
  return code == HF_OK ? hf_observe_waits(database, wait_interest, session_waits, session_sleeps, session_gives_up, nullptr) : code;
}

} // namespace holdfast
