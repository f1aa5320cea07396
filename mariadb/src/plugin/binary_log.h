/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License as published by the Free Software Foundation; version 2 of the License. */

#ifndef HOLDFAST_BINARY_LOG_H
#define HOLDFAST_BINARY_LOG_H

#include "server.h"

namespace holdfast {

/* A transaction that the binary log has could not be committed in its turn. */
void falls_behind_binary_log();

/* Its session has tried once more. If that has failed, too, only a start of the server asks again. */
void catches_up_with_binary_log(bool is_committed);

/* The server asks whether all that a file of the binary log has is durable in the engine: once it is, a start
   does not read that file any more. The answer may come later. */
void commit_checkpoint_request(void *cookie);

} // namespace holdfast

#endif
