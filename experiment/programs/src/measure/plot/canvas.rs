//! Shapes on a plane, in units of which one is a pixel of the SVG; y grows downwards.

/// Red, green, blue.
pub type Colour = [u8; 3];

pub const BLACK: Colour = [30, 30, 30];
pub const GREY: Colour = [205, 205, 205];

/// Advance of one character of text, which is set in a font of fixed width.
pub const GLYPH: f64 = 8.0;

/// Where the given point lies on a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    Rectangle {
        x: f64,
        y: f64,
        width: f64,
        height: f64,
        fill: Colour,
    },
    Line {
        points: Vec<(f64, f64)>,
        colour: Colour,
    },
    /// `y` is the middle of the text's height.
    Text {
        x: f64,
        y: f64,
        anchor: Anchor,
        text: String,
    },
}

/// What is drawn, in the order of drawing, on white.
#[derive(Debug, Clone, Default)]
pub struct Canvas {
    pub width: f64,
    pub height: f64,
    pub shapes: Vec<Shape>,
}

impl Canvas {
    pub fn new(width: f64, height: f64) -> Self {
        Self { width, height, shapes: Vec::new() }
    }

    pub fn rectangle(&mut self, x: f64, y: f64, width: f64, height: f64, fill: Colour) {
        self.shapes.push(Shape::Rectangle { x, y, width, height, fill });
    }

    pub fn line(&mut self, points: Vec<(f64, f64)>, colour: Colour) {
        self.shapes.push(Shape::Line { points, colour });
    }

    pub fn text(&mut self, x: f64, y: f64, anchor: Anchor, text: impl Into<String>) {
        self.shapes.push(Shape::Text { x, y, anchor, text: text.into() });
    }
}

/// Width of `text` in units.
pub fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * GLYPH
}
