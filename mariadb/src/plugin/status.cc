/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

#include "status.h"
#include "errors.h"

#include <deque>

namespace holdfast {

/* The status variables: those of the engine's catalogue, and three for every class of waits.
   The lists are made once, before anything is shown; the server reads the values while
   others bring them up to date. */
static std::deque<std::string> names;
static std::deque<ulonglong> values;
static std::vector<st_mysql_show_var> variables;

static void add(const std::string &name)
{
  names.push_back(name);
  values.push_back(0);
  variables.push_back({names.back().c_str(), &values.back(), SHOW_ULONGLONG});
}

static std::string text(hf_slice bytes)
{
  return std::string((const char *) bytes.data, bytes.len);
}

extern "C" void add_metric(void *, hf_slice name, uint64_t)
{
  add(text(name));
}

extern "C" void add_waits(void *, const hf_wait_class *waits)
{
  for (const char *what : {"_count", "_time_us", "_max_us"})
    add("wait_" + text(waits->name) + what);
}

hf_code collect_status_variables()
{
  // The library stays when the plugin goes, and comes again with it.
  variables.clear();
  values.clear();
  names.clear();
  hf_code code= hf_metrics(database, add_metric, nullptr);
  if (code == HF_OK)
    code= hf_waits(database, add_waits, nullptr);
  variables.push_back({nullptr, nullptr, SHOW_LONG});
  return code;
}

/* Where the next value goes. */
struct Place
{
  size_t at;

  void store(ulonglong value)
  {
    if (at < values.size())
      __atomic_store_n(&values[at++], value, __ATOMIC_RELAXED);
  }
};

extern "C" void store_metric(void *place, hf_slice, uint64_t value)
{
  static_cast<Place *>(place)->store(value);
}

extern "C" void store_waits(void *place, const hf_wait_class *waits)
{
  for (uint64_t value : {waits->count, waits->total_us, waits->max_us})
    static_cast<Place *>(place)->store(value);
}

extern "C" int show_variables(MYSQL_THD, struct st_mysql_show_var *variable, void *, struct system_status_var *,
                              enum enum_var_type)
{
  static st_mysql_show_var none= {nullptr, nullptr, SHOW_LONG};
  Place place= {0};
  bool there_are= database && hf_metrics(database, store_metric, &place) == HF_OK &&
                  hf_waits(database, store_waits, &place) == HF_OK;
  variable->type= SHOW_ARRAY;
  variable->value= there_are ? variables.data() : &none;
  return 0;
}

struct st_mysql_show_var status_variables[]= {
  {"Holdfast", (void *) show_variables, SHOW_FUNC},
  {nullptr, nullptr, SHOW_LONG}
};

void log_deadlock()
{
  hf_buffer *buffer= nullptr;
  hf_slice bytes= {nullptr, 0};
  if (hf_buffer_new(&buffer) == HF_OK && hf_latest_deadlock(database, buffer) == HF_OK &&
      hf_buffer_bytes(buffer, &bytes) == HF_OK)
  {
    // Line by line: the server cuts what is longer than a kilobyte.
    std::string report= text(bytes);
    for (size_t begin= 0, end; (end= report.find('\n', begin)) != std::string::npos; begin= end + 1)
      sql_print_information("Holdfast: %s", report.substr(begin, end - begin).c_str());
  }
  hf_buffer_free(buffer);
}

static bool show_monitor(THD *thd, stat_print_fn *print)
{
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

struct Printer
{
  THD *thd;
  stat_print_fn *print;
  bool failed;
};

extern "C" void print_waits(void *context, const hf_wait_class *waits)
{
  Printer *to= static_cast<Printer *>(context);
  char line[128];
  size_t length= my_snprintf(line, sizeof(line), "waits=%llu, time_us=%llu, max_us=%llu", (ulonglong) waits->count,
                             (ulonglong) waits->total_us, (ulonglong) waits->max_us);
  if (!to->failed)
    to->failed= to->print(to->thd, STRING_WITH_LEN("HOLDFAST"), (const char *) waits->name.data, waits->name.len, line,
                          length);
}

static bool show_waits(THD *thd, stat_print_fn *print)
{
  Printer printer= {thd, print, false};
  hf_code code= hf_waits(database, print_waits, &printer);
  if (code != HF_OK)
    server_error(code, thd);
  return printer.failed || code != HF_OK;
}

bool show_status(handlerton *, THD *thd, stat_print_fn *print, enum ha_stat_type what)
{
  switch (what) {
  case HA_ENGINE_STATUS:
    return show_monitor(thd, print);
  case HA_ENGINE_MUTEX:
    return show_waits(thd, print);
  default:
    return false;
  }
}

} // namespace holdfast
