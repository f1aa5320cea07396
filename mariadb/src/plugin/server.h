/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

/* The server's headers, in the order in which they can be included, and the engine's. */

#ifndef HOLDFAST_SERVER_H
#define HOLDFAST_SERVER_H

#include <my_global.h>
#include <mysql_version.h>
#include <mysql/plugin.h>
#include "sql_class.h"
#include "handler.h"
#include "table.h"
#include "field.h"
#include "key.h"
#include "sql_plugin.h"

#include <string>
#include <vector>

#include "holdfast.h"

namespace holdfast {

extern handlerton *hton;
extern hf_database *database;

inline hf_slice slice(const void *data, size_t len)
{
  return {static_cast<const uint8_t *>(data), len};
}

inline hf_slice slice(const std::string &text)
{
  return slice(text.data(), text.size());
}

/* Bytes that grow and keep their memory. */
typedef std::vector<uchar> Bytes;

inline hf_slice slice(const Bytes &bytes)
{
  return slice(bytes.data(), bytes.size());
}

} // namespace holdfast

#endif
