/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

#include "information_schema.h"
#include "errors.h"
#include "sql_acl.h"
#include "sql_i_s.h"
#include "sql_time.h"

#include <deque>

namespace holdfast {

struct st_mysql_information_schema information_schema= {MYSQL_INFORMATION_SCHEMA_INTERFACE_VERSION};

/* Made when the table's plugin begins; never freed, because the server keeps pointers into it. */
struct Columns
{
  std::deque<std::string> names;
  std::vector<ST_FIELD_INFO> fields;
};

static Columns columns_of[LISTINGS];

std::shared_mutex listings_under_way;

static Show::Type type_of(const hf_column &column)
{
  switch (column.kind) {
  case HF_KIND_REAL:
    return Show::Double(MAX_FLOAT_STR_LENGTH);
  case HF_KIND_TEXT:
    return Show::Varchar(column.chars);
  case HF_KIND_TIME:
    return Show::Datetime(0);
  default:
    return Show::ULonglong();
  }
}

extern "C" void add_column(void *context, const hf_column *column)
{
  Columns *columns= static_cast<Columns *>(context);
  columns->names.emplace_back((const char *) column->name.data, column->name.len);
  columns->fields.push_back(Show::Column(columns->names.back().c_str(), type_of(*column),
                                         column->nullable ? NULLABLE : NOT_NULL));
}

int begin_listing(uint number, ST_SCHEMA_TABLE *table, int (*fill)(THD *, TABLE_LIST *, COND *))
{
  Columns &columns= columns_of[number];
  hf_slice name= {nullptr, 0};
  hf_code code= hf_listing_name(number, &name);
  std::string expected= "HOLDFAST_" + std::string((const char *) name.data, name.len);
  if (code != HF_OK || expected != table->table_name)
  {
    sql_print_error("Holdfast: the engine's listing %u is not %s", number, table->table_name);
    return 1;
  }
  // It begins once more when the plugin is installed again.
  if (columns.fields.empty())
  {
    code= hf_listing_columns(number, add_column, &columns);
    columns.fields.push_back(Show::CEnd());
  }
  table->fields_info= columns.fields.data();
  table->fill_table= fill;
  return logged_error(code, "describing a table of INFORMATION_SCHEMA") ? 1 : 0;
}

static int store(Field *field, const hf_cell &cell)
{
  field->set_notnull();
  switch (cell.kind) {
  case HF_KIND_NUMBER:
    return field->store((longlong) cell.number, true);
  case HF_KIND_REAL:
    return field->store(cell.real);
  case HF_KIND_TEXT:
    return field->store((const char *) cell.text.data, cell.text.len, system_charset_info);
  case HF_KIND_TIME:
  {
    time_t seconds= (time_t) cell.number;
    struct tm local;
    MYSQL_TIME time;
    localtime_r(&seconds, &local);
    localtime_to_TIME(&time, &local);
    time.time_type= MYSQL_TIMESTAMP_DATETIME;
    return field->store_time(&time);
  }
  default:
    field->set_null();
    return 0;
  }
}

struct Filling
{
  THD *thd;
  TABLE *table;
  bool failed;
};

extern "C" bool store_row(void *context, const hf_cell *cells, size_t count)
{
  Filling *filling= static_cast<Filling *>(context);
  TABLE *table= filling->table;
  if (thd_kill_level(filling->thd) != THD_IS_NOT_KILLED)
    return false;
  restore_record(table, s->default_values);
  // Text that was cut short is shown as it is.
  for (size_t i= 0; i < count && i < table->s->fields; i++)
    store(table->field[i], cells[i]);
  filling->failed= schema_table_store_record(filling->thd, table);
  return !filling->failed;
}

int fill_listing(uint number, THD *thd, TABLE *table)
{
  std::shared_lock<std::shared_mutex> guard(listings_under_way);
  // As for InnoDB's tables: a user that may not see the sessions of others sees nothing.
  if (!database || check_global_access(thd, PROCESS_ACL, true))
    return 0;
  Filling filling= {thd, table, false};
  hf_code code= hf_listing_rows(database, number, store_row, &filling);
  if (code != HF_OK)
    server_error(code, thd);
  return filling.failed || code != HF_OK;
}

} // namespace holdfast
