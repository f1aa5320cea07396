/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License as published by the Free Software Foundation; version 2 of the License. */

#include "status.h"
#include "errors.h"

namespace holdfast {

bool show_status(handlerton *, THD *thd, stat_print_fn *print, enum ha_stat_type what)
{
  if (what != HA_ENGINE_STATUS)
    return false;
  hf_buffer *buffer= nullptr;
  hf_slice text= {nullptr, 0};
  hf_code code= hf_buffer_new(&buffer);
  if (code == HF_OK)
    code= hf_status_text(database, buffer);
  if (code == HF_OK)
    code= hf_buffer_bytes(buffer, &text);
  bool failed= code != HF_OK;
  if (failed)
    server_error(code, thd);
  else
    failed= print(thd, STRING_WITH_LEN("HOLDFAST"), STRING_WITH_LEN(""), (const char *) text.data, text.len);
  hf_buffer_free(buffer);
  return failed;
}

} // namespace holdfast
