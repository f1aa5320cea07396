/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License as published by the Free Software Foundation; version 2 of the License. */

#include "sessions.h"
#include "transaction.h"

#include <mutex>
#include <unordered_map>

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

static void append(hf_buffer *buffer, const char *text)
{
  hf_buffer_append(buffer, slice(text, strlen(text)));
}

extern "C" bool find_session(void *, uint64_t serial, hf_session *out)
{
  std::lock_guard<std::mutex> guard(mutex);
  for (const auto &session : sessions)
  {
    if (session.first->number() != serial)
      continue;
    THD *thd= session.second;
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
  return hf_set_sessions(database, find_session, nullptr);
}

} // namespace holdfast
