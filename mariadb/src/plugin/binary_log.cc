/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

/* What the binary log has is committed in the engine, or the file of the binary log that has it
   stays within reach of the next start: as long as a transaction of it is prepared still, or its
   commit is not durable, no request of the server is answered. What sessions could not commit and
   requests that could not be answered are kept, and tried again with the next request, by FLUSH
   ENGINE LOGS, at the server's shutdown, when the engine is uninstalled, and when a session has
   caught up. Lock order: the turn, then the mutex, which is a leaf. */

#include "binary_log.h"
#include "errors.h"
#include "log.h"
#include "query_cache.h"

#include <algorithm>
#include <mutex>
#include <vector>

namespace holdfast {

static std::mutex turn;               // held while what was kept is tried again
static std::mutex mutex;              // guards what is below
static std::vector<std::string> left; // the xids of what the binary log has and is prepared still
static std::vector<void *> put_off;   // requests that are not answered yet

void falls_behind_binary_log(const std::string &xid)
{
  std::lock_guard<std::mutex> guard(mutex);
  left.push_back(xid);
}

static bool is_left(const std::string &xid)
{
  // What is being tried again is not on the list.
  std::lock_guard<std::mutex> alone(turn);
  std::lock_guard<std::mutex> guard(mutex);
  return std::find(left.begin(), left.end(), xid) != left.end();
}

bool catches_up_with_binary_log(const std::string &xid)
{
  catch_up_with_binary_log();
  if (!is_left(xid))
    return true;
  sql_print_error("Holdfast: the binary log has a transaction that the engine could not commit. It is tried again by FLUSH ENGINE LOGS, "
                  "with the next file of the binary log, at the server's shutdown, and when the engine is uninstalled; until it is "
                  "committed, RESET MASTER waits. If the server is killed, its next start commits the transaction; after a shutdown "
                  "that could not, start it once with --tc-heuristic-recover=COMMIT");
  return false;
}

/* Commits a transaction that its session has left prepared. False if it is prepared still. */
static bool is_ended(const std::string &xid)
{
  hf_transaction *transaction= nullptr;
  hf_code code= hf_adopt(database, slice(xid), &transaction);
  // It was ended by its xid, with XA COMMIT.
  if (code == HF_INVALID)
    return true;
  if (code == HF_OK)
    code= hf_commit(transaction, HF_FLUSH_LAZY);
  const bool is_committed= !logged_error(code, "committing what the binary log has");
  hf_transaction_free(transaction);
  if (is_committed)
    forget_cached_results();
  return is_committed;
}

void catch_up_with_binary_log()
{
  std::lock_guard<std::mutex> alone(turn);
  std::vector<std::string> again;
  std::vector<void *> now;
  {
    std::lock_guard<std::mutex> guard(mutex);
    if (left.empty() && put_off.empty())
      return;
    again.swap(left);
    now.swap(put_off);
  }
  again.erase(std::remove_if(again.begin(), again.end(), is_ended), again.end());
  if (again.empty() && !logged_error(hf_flush_log(database), "making commits durable"))
  {
    for (void *cookie : now)
      commit_checkpoint_notify_ha(cookie);
    return;
  }
  std::lock_guard<std::mutex> guard(mutex);
  left.insert(left.end(), again.begin(), again.end());
  put_off.insert(put_off.end(), now.begin(), now.end());
}

void commit_checkpoint_request(void *cookie)
{
  {
    std::lock_guard<std::mutex> guard(mutex);
    put_off.push_back(cookie);
  }
  catch_up_with_binary_log();
}

} // namespace holdfast
