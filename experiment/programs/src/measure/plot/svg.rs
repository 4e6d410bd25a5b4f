//! A canvas as an SVG document.

use super::canvas::{Anchor, Canvas, Shape};
use std::fmt::Write;

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

pub fn svg_of(canvas: &Canvas) -> String {
    let (width, height) = (canvas.width, canvas.height);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"monospace\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for shape in &canvas.shapes {
        // Writing to a String cannot fail.
        let _ = match shape {
            Shape::Rectangle { x, y, width, height, fill: [r, g, b] } => writeln!(
                out,
                "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{width:.2}\" height=\"{height:.2}\" \
                 fill=\"rgb({r},{g},{b})\"/>"
            ),
            Shape::Line { points, colour: [r, g, b] } => {
                let points: Vec<String> =
                    points.iter().map(|(x, y)| format!("{x:.2},{y:.2}")).collect();
                writeln!(
                    out,
                    "<polyline points=\"{}\" fill=\"none\" stroke=\"rgb({r},{g},{b})\" \
                     stroke-width=\"1.5\"/>",
                    points.join(" ")
                )
            }
            Shape::Text { x, y, anchor, text } => {
                let anchor = match anchor {
                    Anchor::Start => "start",
                    Anchor::Middle => "middle",
                    Anchor::End => "end",
                };
                writeln!(
                    out,
                    "<text x=\"{x:.2}\" y=\"{:.2}\" text-anchor=\"{anchor}\">{}</text>",
                    y + 4.5,
                    escaped(text)
                )
            }
        };
    }
    out += "</svg>\n";
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped() {
        let mut canvas = Canvas::new(10.0, 10.0);
        canvas.text(1.0, 1.0, Anchor::Start, "a<b & \"c\"");
        assert!(svg_of(&canvas).contains("a&lt;b &amp; &quot;c&quot;"));
    }
}
