/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License as published by the Free Software Foundation; version 2 of the License. */

/* What the binary log has is committed in the engine, or the file of the binary log that has it stays within reach of the next start: as long as
   a transaction of it is prepared still, no request of the server is answered. The mutex is a leaf. */

#include "binary_log.h"
#include "errors.h"
#include "log.h"

#include <mutex>
#include <vector>

namespace holdfast {

static std::mutex mutex;
static uint undecided= 0;             // transactions that the binary log has and that are prepared still
static std::vector<void *> put_off;   // requests that wait for them

void falls_behind_binary_log()
{
  std::lock_guard<std::mutex> guard(mutex);
  undecided++;
}

void catches_up_with_binary_log(bool is_committed)
{
  if (!is_committed)
  {
    sql_print_error("Holdfast: the binary log has a transaction that the engine could not commit. RESET MASTER would wait for it. "
                    "If the server is killed, its next start commits the transaction; after a shutdown, start it once with "
                    "--tc-heuristic-recover=COMMIT");
    return;
  }
  std::vector<void *> now;
  {
    std::lock_guard<std::mutex> guard(mutex);
    if (!--undecided)
      now.swap(put_off);
  }
  for (void *cookie : now)
    commit_checkpoint_request(cookie);
}

void commit_checkpoint_request(void *cookie)
{
  {
    std::lock_guard<std::mutex> guard(mutex);
    if (undecided)
    {
      put_off.push_back(cookie);
      return;
    }
  }
  if (!logged_error(hf_flush_log(database), "making commits durable"))
    commit_checkpoint_notify_ha(cookie);
}

} // namespace holdfast
