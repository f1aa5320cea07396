/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

/* The XIDs of prepared transactions, in the engine and in the server. */

#ifndef HOLDFAST_XID_H
#define HOLDFAST_XID_H

#include "server.h"

namespace holdfast {

/* An XID as the engine keeps it: how long its first part is (one byte), the number of its
   format (eight), both parts. */
std::string xid_bytes(const XID *xid);

/* The same of the session's transaction. */
std::string xid_bytes(THD *thd);

/* As earlier versions of the engine kept it: eight bytes for each number. */
std::string long_xid_bytes(const XID *xid);

/* The XID that either of them is of; false if it is none. */
bool xid_from_bytes(hf_slice bytes, XID *xid);

} // namespace holdfast

#endif
