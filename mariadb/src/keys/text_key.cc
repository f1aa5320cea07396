/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

/* Texts in keys: by which weights a collation compares, and how they are encoded. */

#include "key_format.h"

namespace holdfast {

static const uchar REST_LESS= 1, REST_GREATER= 3;

/* How text in the collation of `field` is encoded. */
void Index_key_part::choose_weights(const Field *field)
{
  charset= field->charset();
  if (charset == &my_charset_bin)
  {
    kind= BYTES;
    chars= length;
    level_count= 1;
    return;
  }
  // Also beside a key of the beginning of a column, where it is never read.
  has_rest= field->real_type() == MYSQL_TYPE_VARCHAR || is_char;
  chars= length / charset->mbmaxlen;
  compares_codes= !strcmp(charset->cs_name.str, "big5") && !(charset->state & MY_CS_BINSORT);
  choose_levels();
  if (level_count == 0)
  {
    // Weights of several levels follow each other: they compare only when the first level has one
    // length for all.
    kind= SORTED;
    fixed= (uint) charset->strnxfrmlen(length);
    return;
  }
  choose_padding();
}

/* Without padding the server still pads all levels but the first. That counts where accents do not:
   they have weights of the third level, like those of spaces. Where accents count, equal texts have
   equally many weights of each level. */
void Index_key_part::choose_padding()
{
  bool pads= !(charset->state & MY_CS_NOPAD), counts_case_alone= charset->levels_for_order == 5;
  bool has_spaces= (pads || counts_case_alone) && choose_spaces();
  for (uint i= 0; i < level_count; i++)
    levels[i].is_padded= has_spaces && (pads || i > 0);
  kind= pads && has_spaces ? PADDED : BYTES;
}

/* The levels by which the collation compares; none if it does not give the
   weights of each on their own. */
void Index_key_part::choose_levels()
{
  level_count= 0;
  if (charset->levels_for_order <= 1)
    levels[level_count++].flag= 0;
  else if (charset->uca)
  {
    for (uint i= 0; i < MY_STRXFRM_NLEVELS; i++)
    {
      if (charset->levels_for_order >> i & 1)
        levels[level_count++].flag= MY_STRXFRM_LEVEL1 << i;
    }
  }
}

/* The weights of a space; false if the collation has none for it. */
bool Index_key_part::choose_spaces()
{
  uchar text[8];
  int n= charset->wc_mb(' ', text, text + sizeof(text));
  for (uint i= 0; i < level_count; i++)
  {
    uchar weight[16];
    size_t made= n > 0 ? charset->strnxfrm(weight, sizeof(weight), 1, text, (uint) n, levels[i].flag) : 0;
    if (made == 0 || made > sizeof(levels[i].space) || (i && made != space_length))
      return false;
    memcpy(levels[i].space, weight, made);
    space_length= (uint) made;
  }
  piece= 8 / space_length * space_length;
  return true;
}

static void append_escaped(const uchar *from, size_t length, Bytes *out)
{
  for (size_t i= 0; i < length; i++)
  {
    out->push_back(from[i]);
    if (from[i] == 0)
      out->push_back(0xFF);
  }
  out->push_back(0);
  out->push_back(0);
}

/* How `rest` compares to spaces for ever. It does not end in spaces. */
static uchar compare_to_spaces(const uchar *rest, size_t length, const uchar *space, uint space_length)
{
  for (size_t i= 0; i < length; i++)
  {
    uchar pad= space[i % space_length];
    if (rest[i] != pad)
      return rest[i] < pad ? REST_LESS : REST_GREATER;
  }
  return REST_NONE;
}

void Index_key_part::append_padded(const uchar *space, const uchar *weights, size_t n, Bytes *out) const
{
  while (n >= space_length && n % space_length == 0 && !memcmp(weights + n - space_length, space, space_length))
    n-= space_length;
  size_t at= 0;
  while (n - at > piece)
  {
    out->insert(out->end(), weights + at, weights + at + piece);
    at+= piece;
    uchar rest= compare_to_spaces(weights + at, n - at, space, space_length);
    out->push_back(rest);
    if (rest == REST_NONE)
      return;
  }
  out->insert(out->end(), weights + at, weights + n);
  for (size_t i= n - at; i < piece; i++)
    out->push_back(space[i % space_length]);
  out->push_back(REST_NONE);
}

/* How many bytes of a text count: those of the characters that the part has, and of them none of
   the spaces at the end, unless the collation tells them apart. Not every collation leaves these
   out of its weights itself. */
size_t Index_key_part::text_length(const uchar *text, size_t n) const
{
  n= MY_MIN(n, charset->charpos(text, text + n, chars));
  return charset->state & MY_CS_NOPAD ? n : charset->lengthsp((const char *) text, n);
}

void Index_key_part::encode_text(const uchar *text, size_t n, Bytes *out) const
{
  if (charset == &my_charset_bin)
  {
    append_escaped(text, MY_MIN(n, (size_t) chars), out);
    return;
  }
  n= text_length(text, n);
  for (uint i= 0; i < level_count; i++)
    append_level(levels[i], text, n, out);
}

/* Big5 has the strokes of characters for weights, by which the server sorts,
   and compares their codes. */
static size_t weigh_codes(CHARSET_INFO *charset, const uchar *text, size_t n, uchar *out)
{
  for (size_t i= 0; i < n; i++)
  {
    if (my_ismbchar(charset, (const char *) text + i, (const char *) text + n) != 2)
      out[i]= charset->sort_order[text[i]];
    else
    {
      memcpy(out + i, text + i, 2);
      i++;
    }
  }
  return n;
}

/* All weights of the text: a character can have several, and each of them counts. */
void Index_key_part::append_level(const Level &level, const uchar *text, size_t n, Bytes *out) const
{
  uchar on_stack[1024];
  Bytes on_heap;
  // The collation takes every character to have the greatest length.
  size_t room= charset->strnxfrmlen((n + 1) * charset->mbmaxlen);
  uchar *weights= on_stack;
  if (room > sizeof(on_stack))
  {
    on_heap.resize(room);
    weights= on_heap.data();
  }
  size_t made= compares_codes ? weigh_codes(charset, text, n, weights)
    : charset->strnxfrm(weights, room, (uint) room, text, (uint) n, level.flag);
  if (level.is_padded)
    append_padded(level.space, weights, made, out);
  else
    append_escaped(weights, made, out);
}

} // namespace holdfast
