//! Columns that line up, with colours that do not count as width.

use clap::builder::styling::Style;

use super::style;

#[derive(Clone, Debug)]
pub struct Cell {
    text: String,
    style: Style,
    right: bool,
}

impl Cell {
    pub fn text(text: impl Into<String>) -> Cell {
        Cell {
            text: text.into(),
            style: Style::new(),
            right: false,
        }
    }

    /// Text in a colour.
    pub fn styled(style: Style, text: impl Into<String>) -> Cell {
        Cell {
            style,
            ..Cell::text(text)
        }
    }

    /// A number, or what stands in its place: aligned to the right.
    pub fn number(text: impl Into<String>) -> Cell {
        Cell {
            right: true,
            ..Cell::text(text)
        }
    }

    fn width(&self) -> usize {
        self.text.chars().count()
    }

    fn draw(&self, width: usize, last: bool) -> String {
        let padding = " ".repeat(width.saturating_sub(self.width()));
        let text = style::paint(self.style, &self.text);
        match (self.right, last) {
            (true, _) => format!("{padding}{text}"),
            (false, true) => text,
            (false, false) => format!("{text}{padding}"),
        }
    }
}

/// The table as text: a heading line, then a line for each row. A heading is aligned as the cells below it.
pub fn draw(headings: &[&str], rows: &[Vec<Cell>], indent: &str) -> String {
    let right = |column: usize| {
        rows.first()
            .and_then(|row| row.get(column))
            .is_some_and(|cell| cell.right)
    };
    let heading = |(column, text): (usize, &&str)| Cell {
        right: right(column),
        ..Cell::styled(style::DIM, *text)
    };
    let head: Vec<Cell> = headings.iter().enumerate().map(heading).collect();
    let all: Vec<&Vec<Cell>> = std::iter::once(&head).chain(rows).collect();
    let width = |column: usize| {
        all.iter()
            .filter_map(|row| row.get(column))
            .map(Cell::width)
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..headings.len()).map(width).collect();
    let line = |row: &&Vec<Cell>| {
        let last = row.len().saturating_sub(1);
        let cells = row.iter().zip(&widths).enumerate();
        let drawn: Vec<String> = cells
            .map(|(at, (cell, width))| cell.draw(*width, at == last))
            .collect();
        format!("{indent}{}\n", drawn.join("  "))
    };
    all.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_take_no_room() {
        let rows = [
            vec![Cell::styled(style::GOOD, "a"), Cell::number("1"), Cell::text("x")],
            vec![Cell::text("long"), Cell::number("20"), Cell::text("y")],
        ];
        let drawn = draw(&["NAME", "N", "URL"], &rows, " ");
        let plain = anstream::adapter::strip_str(&drawn).to_string();
        assert_eq!(plain, " NAME   N  URL\n a      1  x\n long  20  y\n");
    }
}
