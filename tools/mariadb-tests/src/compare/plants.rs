//! Faults that are planted in the shim, one at a time: the comparison has to find each.

use holdfast_server::{Edit, Plant};

/// What is planted, and in how many scenarios of a seed it is found at the latest.
pub struct Planted {
    pub what: &'static str,
    pub seed: u64,
    pub within: u64,
    pub plant: Plant,
}

/// All of them.
pub const ALL: [Planted; 8] = [
    Planted {
        what: "an index that has only the beginning of a column is read without the row",
        seed: 1,
        within: 600,
        plant: Plant {
            edits: &[Edit {
                file: "ha_holdfast.cc",
                sound: "!sought.is_loose && !range_read.is_end_loose &&\n    !share->keys[active_index].has_only_beginning(table->read_set);",
                faulty: "!sought.is_loose && !range_read.is_end_loose;",
            }],
        },
    },
    Planted {
        what: "a count by an index leaves out what its transaction has changed",
        seed: 1,
        within: 600,
        plant: Plant {
            edits: &[Edit {
                file: "ha_holdfast.cc",
                sound: "  return fail(hf_cursor_seek(scan.cursor, transaction(), &where));",
                faulty: "  if (reading.lock != HF_LOCK_NONE || !is_covered())\n    return fail(hf_cursor_seek(scan.cursor, transaction(), &where));\n  \
                     hf_transaction *other= nullptr;\n  hf_transaction_options options= \
                     {sizeof(options), HF_ISOLATION_READ_COMMITTED, false, false};\n  hf_begin(database, &options, &other);\n  \
                     return fail(hf_cursor_seek(scan.cursor, other, &where));",
            }],
        },
    },
    Planted {
        what: "an UPDATE of an AUTO_INCREMENT column does not count",
        seed: 1,
        within: 600,
        plant: Plant {
            edits: &[Edit {
                file: "write.cc",
                sound: "  const Field *number= connection->chain.empty() ? table->found_next_number_field : nullptr;",
                faulty: "  const Field *number= nullptr;",
            }],
        },
    },
    Planted {
        what: "an UPDATE that changes nothing counts",
        seed: 1,
        within: 100,
        plant: Plant {
            edits: &[Edit {
                file: "write.cc",
                sound: "  if (share->layout.is_same(table, before, after))\n    return HA_ERR_RECORD_IS_THE_SAME;\n",
                faulty: "",
            }],
        },
    },
    Planted {
        what: "a row that a duplicate was refused for is not locked",
        seed: 2,
        within: 700,
        plant: Plant {
            edits: &[Edit {
                file: "ha_holdfast.cc",
                sound: "  writing.end_statement();",
                faulty: "  writing.end_statement();\n  writing.duplicate_lock= HF_LOCK_NONE;",
            }],
        },
    },
    Planted {
        what: "a FOREIGN KEY brings a parent's NULL to a column that is NOT NULL",
        seed: 1,
        within: 1000,
        plant: Plant {
            edits: &[Edit {
                file: "foreign_keys.cc",
                sound: "return thd->is_strict_mode() && ",
                faulty: "return false && ",
            }],
        },
    },
    Planted {
        what: "reads at SERIALIZABLE lock nothing",
        seed: 1,
        within: 300,
        plant: Plant {
            edits: &[
                Edit {
                    file: "ha_holdfast.cc",
                    sound: "  else if (isolation == ISO_SERIALIZABLE && ",
                    faulty: "  else if (false && ",
                },
                Edit {
                    file: "transaction.cc",
                    sound: "    if (options.isolation == HF_ISOLATION_SERIALIZABLE && !in_long_transaction(thd))",
                    faulty: "    if (options.isolation == HF_ISOLATION_SERIALIZABLE)",
                },
            ],
        },
    },
    Planted {
        what: "a copy that has failed fails the commit of what came before its statement",
        seed: 1,
        within: 600,
        plant: Plant {
            edits: &[Edit {
                file: "transaction.cc",
                sound: "  copy_error= 0;\n  if (!transaction)",
                faulty: "  if (!transaction)",
            }],
        },
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    /// The shim was changed, and three of the faults could not be planted any more.
    #[test]
    fn the_shim_has_what_the_faults_replace() {
        for planted in ALL {
            planted.plant.check().unwrap();
        }
    }
}
