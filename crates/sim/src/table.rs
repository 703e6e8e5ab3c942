//! Results as plain text, for snapshots: columns are padded to their widest cell, numbers
//! right-aligned.

use std::fmt::Write;

/// A table of results.
#[derive(Clone, Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Creates a table with these column heads.
    pub fn new(heads: &[&str]) -> Self {
        Table { rows: vec![heads.iter().map(ToString::to_string).collect()] }
    }

    /// Adds a row with as many cells as there are heads.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) -> &mut Self {
        debug_assert_eq!(N, self.rows[0].len());
        self.rows.push(cells.into());
        self
    }

    /// Returns the table as text, without trailing blanks. The first column is left-aligned, the
    /// others are right-aligned.
    pub fn text(&self) -> String {
        let columns = self.rows[0].len();
        let widths: Vec<usize> = (0..columns)
            .map(|column| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
            .collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let _ = match column {
                    0 => write!(line, "{cell:<width$}"),
                    _ => write!(line, "  {cell:>width$}"),
                };
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// Jain's fairness index of rates: 1 when all are equal, 1/n when one has everything; 0 for none.
pub fn jain(rates: &[f64]) -> f64 {
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    if squares == 0.0 { 0.0 } else { sum * sum / (rates.len() as f64 * squares) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_columns_are_aligned() {
        let mut table = Table::new(&["what", "n"]);
        table.row(["long name".into(), "5".into()]).row(["x".into(), "1000".into()]);
        assert_eq!(table.text(), "what          n\nlong name     5\nx          1000\n");
    }

    #[test]
    fn jains_index_is_one_for_equal_shares() {
        assert_eq!(jain(&[3.0, 3.0, 3.0]), 1.0);
        assert_eq!(jain(&[0.0, 8.0]), 0.5);
        assert_eq!(jain(&[]), 0.0);
    }
}
