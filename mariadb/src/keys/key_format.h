/* Copyright (c) the Holdfast authors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the
   terms of the GNU General Public License as published by the Free Software Foundation;
   version 2 of the License. */

/* Keys as byte strings that compare with memcmp.

   A key is the concatenation of its parts; each part is self-delimiting, so that a key of the
   first parts is a prefix of all keys that begin with them, and what follows a part (further
   parts, the row's key) can be found.

     nullable part   00 for NULL, else 01 and the value
     integer         big-endian, sign bit flipped; also YEAR, ENUM, SET, DATE
     plain           the bytes of the record, which compare already (DECIMAL, times with fractions,
                     BINARY, BIT)
     sorted          what the server sorts by (FLOAT, DOUBLE, UUID, INET6, old formats); its length
                     is fixed
     bytes           VARBINARY, BLOB, and text in collations without padding (its weights): 00 as
                     00 FF, 00 00 at the end
     padded          weights of text in collations that ignore trailing spaces: pieces of one
                     length, each followed by how the rest compares to spaces: 01 less, 03 greater,
                     02 there is no rest
     descending      all bytes of the part, inverted

   A collation that compares by several levels (accents, then case) has the weights of each level,
   one after the other. Without padding the first is as bytes are, and the second padded where case
   counts and accents do not. Texts have to be equal, and in the order, as the collation compares
   them, whatever weights the server sorts by: for Big5 these are others. Text is encoded by its
   weights and cannot be given back from them; such columns are kept beside the key in the entry of
   an index, see `Index_key::append_rest`.

   A part that holds only the beginning of its column is never the source of a value: `decode`
   passes over it. The columns of the server's key parts are no help in telling: for a part of a
   column the server makes a column of the part's length.

   A character can have many weights, and a page takes keys of a quarter of its size. A key that
   comes to the limit of its index or more is cut: it is its first bytes and a hash of all of it, so
   that it equals those keys that it has to equal. Among keys that have the first bytes in common
   order is lost; a search for a range visits all of them, and so does a search for the first parts
   of a key that reach to where the hash of a whole one would be. */

#ifndef HOLDFAST_KEY_H
#define HOLDFAST_KEY_H

#include "plugin/server.h"

namespace holdfast {

/* Of the rest of a padded text: there is none. */
static const uchar REST_NONE= 2;

/* One part of a key. */
class Index_key_part
{
public:
  explicit Index_key_part(const KEY_PART_INFO &info);

  /* Becomes a part with the bytes that another table's part, of the column `theirs`, has for the
     same value. False if the columns cannot be compared. */
  bool stand_for(const Index_key_part &other, const Field *mine, const Field *theirs);

  /* Of a part that stands for another table's: whether the value of a record can be one of that
     column. */
  bool has_counterpart(TABLE *table, const uchar *record) const;

  /* Appends the part of a record. `table` owns the fields. */
  void encode_record(TABLE *table, const uchar *record, Bytes *out) const;

  /* Appends the part of a key in the server's format, and moves `*key` behind it. */
  void encode_image(TABLE *table, const uchar **key, Bytes *out) const;

  /* The end of the part that begins at `from`; null if there is none before `end`. */
  const uchar *skip(const uchar *from, const uchar *end) const;

  /* Puts the part into the record and moves `*from` behind it. What the key does not hold is taken
     from `*rest`. Of a column that the key has only the beginning of, the record gets no more than
     whether it is NULL. False if the bytes are none that were encoded. */
  bool decode(TABLE *table, uchar *record, const uchar **from, const uchar *end, const uchar **rest,
              const uchar *rest_end) const;

  /* Appends what `decode` will need beside the key. */
  void append_rest(TABLE *table, const uchar *record, Bytes *rest) const;

  /* True if an entry has all of the column's value. */
  bool has_whole_column() const { return !is_prefix; }

  uint column() const { return field_no; }

  bool is_null(const uchar *record) const
  {
    return null_bit && (record[null_offset] & null_bit);
  }

  /* True if the column has the same bytes in both records. */
  bool is_same(TABLE *table, const uchar *a, const uchar *b) const;

  /* The most bytes that the part can take. */
  size_t max_length() const;

  /* The bytes that a value of full length takes if its characters have
     weights like those of letters. */
  size_t usual_length() const;

  /* True if every value takes equally many bytes. */
  bool is_fixed() const
  {
    return !null_bit && (kind == INTEGER || kind == PLAIN || kind == SORTED);
  }

private:
  enum Kind { INTEGER, PLAIN, SORTED, BYTES, PADDED };

  /* A level by which a collation compares. */
  struct Level
  {
    uint flag;       // for the server, which level it is; 0 if there is only one
    bool is_padded;
    uchar space[4];  // padded: the weight of a space
  };

  Kind choose_kind(const Field *field);
  bool choose_whether_prefix(const Field *field) const;
  bool is_binary() const;
  void stand_for_binary(const Index_key_part &other);
  void choose_weights(const Field *field);
  void choose_levels();
  void choose_padding();
  bool choose_spaces();
  Field *field(TABLE *table) const
  {
    return table->field[field_no];
  }
  void encode_value(TABLE *table, const uchar *from, size_t length, Bytes *out) const;
  size_t text_length(const uchar *text, size_t length) const;
  void encode_text(const uchar *text, size_t length, Bytes *out) const;
  void append_level(const Level &level, const uchar *text, size_t length, Bytes *out) const;
  void append_padded(const uchar *space, const uchar *weights, size_t length, Bytes *out) const;
  void text_of(TABLE *table, const uchar *record, const uchar **text, size_t *length) const;
  const uchar *skip_value(const uchar *from, const uchar *end) const;
  const uchar *skip_level(const Level &level, const uchar *from, const uchar *end) const;
  void decode_integer(uchar *to, const uchar *from) const;
  bool decode_rest(TABLE *table, uchar *to, const uchar **rest, const uchar *rest_end) const;
  bool decode_bytes(Field *column, uchar *to, const uchar *from, const uchar *end) const;

  uint field_no;
  uint offset;
  uint length;       // of the part, in bytes of the column
  uint null_offset;
  uchar null_bit;
  bool marks_null;   // whether a byte says if the value is NULL
  uchar invert;      // FF for a descending part
  Kind kind;
  bool is_signed;
  bool has_rest;     // the entry has the value beside the key, which cannot give it back
  bool is_prefix;    // the key holds only the beginning of the column
  uint fixed;        // bytes of the encoded value, for the kinds that have it fixed
  bool needs_fixed;  // whether the record's value may have another length
  CHARSET_INFO *charset;
  uint image_length_bytes;
  uint chars;        // text: at most so many characters count
  bool is_char;      // CHAR: stored with trailing spaces
  bool compares_codes; // text: characters have other weights than they compare by
  uint piece;        // padded: bytes of a piece
  uint space_length; // padded: bytes of the weight of a space
  uint level_count;
  Level levels[MY_STRXFRM_NLEVELS];
};

/* All parts of a key. */
class Index_key
{
public:
  Index_key() = default;
  explicit Index_key(const KEY &info);

  /* A key of whole columns. */
  explicit Index_key(const std::vector<Field *> &columns);

  /* Behind its own parts, an entry of this key has the primary key; the server's key may hold parts
     of that, too. `primary` stays where it is. */
  void extend(const KEY &info, const KEY &primary_info, const Index_key *primary);

  /* Becomes the beginning of another table's key, made of records of this table: `columns` stand
     for the first parts. False if they cannot. */
  bool stand_for(const std::vector<Field *> &columns, const KEY &info);

  /* True if the other table can have a key for the record; if not, none can be encoded. */
  bool has_counterpart(TABLE *table, const uchar *record) const;

  /* True if entries have all columns of the primary key, if there is one: then a row's place can be
     told by the columns of an entry. Otherwise the row itself has to be read for that. */
  bool has_place() const { return place_known; }

  /* True if entries have only the beginning of one of these columns. */
  bool has_only_beginning(const MY_BITMAP *columns) const;

  /* Keys are cut where they would come to so many bytes. */
  void set_limit(size_t bytes) { limit= bytes; }

  size_t cut_at() const { return limit; }

  /* True if a key of so many bytes is one that was cut. */
  bool is_cut(size_t length) const { return length >= limit; }

  /* True if a key that begins with so many bytes may have been cut among
     them: then its hash is there. */
  bool is_cut_within(size_t length) const;

  void encode_record(TABLE *table, const uchar *record, Bytes *out) const;

  /* Appends the parts in `map` of a key in the server's format, those of the primary key included.
     Returns how many bytes of `*out` have the order of values, and are the same in all keys that
     begin with them: those before the hash if something was cut, or is in keys that begin like
     this one; otherwise `UNCUT`. */
  static constexpr size_t UNCUT= SIZE_MAX;
  size_t encode_image(TABLE *table, const uchar *key, key_part_map map, Bytes *out) const;

  bool decode(TABLE *table, uchar *record, const uchar **from, const uchar *end, const uchar **rest,
              const uchar *rest_end) const;
  void append_rest(TABLE *table, const uchar *record, Bytes *rest) const;

  /* Where the first `count` parts of an entry end; its length if they cannot be told. */
  size_t end_of(const uchar *entry, size_t length, size_t count) const;

  /* True if all columns have the same bytes in both records; then their keys are the
     same, and what goes with them. */
  bool is_same(TABLE *table, const uchar *a, const uchar *b) const;

  /* True if a part of the key is NULL in the record, so that uniqueness does not count. */
  bool has_null(const uchar *record) const;

  /* The most bytes that a key can take, and those that letters take where they fill it. */
  size_t max_length() const;
  size_t usual_length() const;
  bool is_fixed() const;
  size_t count() const
  {
    return parts.size();
  }

private:
  size_t cut(Bytes *out, size_t begin, bool whole) const;
  bool has_whole_column(uint column) const;

  std::vector<Index_key_part> parts;
  size_t limit= SIZE_MAX;
  const Index_key *primary= nullptr;
  bool place_known= true;
  std::vector<uint> primary_parts;  // where the server's key has those of the primary key, as far as it has them
  std::vector<uint> image_offsets;  // of the parts of the server's key
};

/* Turns `key` into the first byte string behind all that begin with it; empty if there is none. */
void step_over_prefix(Bytes *key);

} // namespace holdfast

#endif
