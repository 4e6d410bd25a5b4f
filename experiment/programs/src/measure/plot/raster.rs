//! A canvas as a PNG image, two pixels to the unit, with the 8x8 font of `font8x8`. Characters
//! outside ASCII are drawn as `?`.

use super::canvas::{Anchor, BLACK, Canvas, Colour, Shape, text_width};
use font8x8::legacy::BASIC_LEGACY;

const PIXELS_A_UNIT: f64 = 2.0;

struct Image {
    width: usize,
    height: usize,
    pixels: Vec<u8>,
}

impl Image {
    fn set(&mut self, x: i64, y: i64, colour: Colour) {
        if (0..self.width as i64).contains(&x) && (0..self.height as i64).contains(&y) {
            let at = (y as usize * self.width + x as usize) * 3;
            self.pixels[at..at + 3].copy_from_slice(&colour);
        }
    }

    fn fill(&mut self, (x0, y0): (i64, i64), (x1, y1): (i64, i64), colour: Colour) {
        for y in y0..y1 {
            for x in x0..x1 {
                self.set(x, y, colour);
            }
        }
    }

    /// A stroke of 2 × 2 pixels along the way.
    fn stroke(&mut self, from: (f64, f64), to: (f64, f64), colour: Colour) {
        let steps = (to.0 - from.0).abs().max((to.1 - from.1).abs()).ceil().max(1.0);
        for step in 0..=steps as u64 {
            let part = step as f64 / steps;
            let x = (from.0 + (to.0 - from.0) * part) as i64;
            let y = (from.1 + (to.1 - from.1) * part) as i64;
            self.fill((x, y), (x + 2, y + 2), colour);
        }
    }

    fn glyphs(&mut self, left: i64, top: i64, text: &str) {
        let dot = PIXELS_A_UNIT as i64;
        for (position, character) in text.chars().enumerate() {
            let code = if character.is_ascii() { character as usize } else { '?' as usize };
            let x0 = left + position as i64 * 8 * dot;
            for (row, bits) in BASIC_LEGACY[code].iter().enumerate() {
                for column in (0..8).filter(|column| bits >> column & 1 == 1) {
                    let (x, y) = (x0 + column * dot, top + row as i64 * dot);
                    self.fill((x, y), (x + dot, y + dot), BLACK);
                }
            }
        }
    }
}

fn pixel(units: f64) -> i64 {
    (units * PIXELS_A_UNIT).round() as i64
}

fn draw(canvas: &Canvas) -> Image {
    let (width, height) = (pixel(canvas.width) as usize, pixel(canvas.height) as usize);
    let mut image = Image { width, height, pixels: vec![255; width * height * 3] };
    for shape in &canvas.shapes {
        match shape {
            Shape::Rectangle { x, y, width, height, fill } => {
                let corner = (pixel(x + width), pixel(y + height));
                image.fill((pixel(*x), pixel(*y)), corner, *fill);
            }
            Shape::Line { points, colour } => {
                for pair in points.windows(2) {
                    let scaled = |(x, y): (f64, f64)| (x * PIXELS_A_UNIT, y * PIXELS_A_UNIT);
                    image.stroke(scaled(pair[0]), scaled(pair[1]), *colour);
                }
            }
            Shape::Text { x, y, anchor, text } => {
                let before = match anchor {
                    Anchor::Start => 0.0,
                    Anchor::Middle => text_width(text) / 2.0,
                    Anchor::End => text_width(text),
                };
                image.glyphs(pixel(x - before), pixel(y - 4.0), text);
            }
        }
    }
    image
}

pub fn png_of(canvas: &Canvas) -> Result<Vec<u8>, png::EncodingError> {
    let image = draw(canvas);
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, image.width as u32, image.height as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&image.pixels)?;
    writer.finish()?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_land_where_they_were_put() {
        let mut canvas = Canvas::new(20.0, 10.0);
        canvas.rectangle(10.0, 0.0, 10.0, 10.0, [9, 8, 7]);
        canvas.text(0.0, 5.0, Anchor::Start, "I");
        let image = draw(&canvas);
        let at = |x: usize, y: usize| &image.pixels[(y * image.width + x) * 3..][..3];
        assert_eq!(at(0, 0), [255, 255, 255]);
        assert_eq!(at(39, 19), [9, 8, 7]);
        assert!((0..16).any(|x| at(x, 10) == BLACK), "the letter has left no dot");
        // Shapes beyond the edge are cut, not wrapped.
        canvas.rectangle(-5.0, -5.0, 100.0, 2.0, BLACK);
        assert_eq!(draw(&canvas).pixels[..3], [255, 255, 255]);
    }
}
