/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

#ifndef HOLDFAST_BINARY_LOG_H
#define HOLDFAST_BINARY_LOG_H

#include "server.h"

namespace holdfast {

/* A transaction that the binary log has could not be committed in its turn. It is left prepared,
   and kept here by its xid. */
void falls_behind_binary_log(const std::string &xid);

/* Its session tries once more. False if the transaction is prepared still. */
bool catches_up_with_binary_log(const std::string &xid);

/* Commits what sessions have left, and answers the server's requests,
   if there are any that wait. */
void catch_up_with_binary_log();

/* The server asks whether all that a file of the binary log has is durable in the engine: once it
   is, a start does not read that file any more. The answer may come later. */
void commit_checkpoint_request(void *cookie);

} // namespace holdfast

#endif
