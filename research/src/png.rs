//! Renders a plot as PNG with an embedded font, so that the result does not depend on installed fonts.

use anyhow::{Context, Result};
use resvg::{tiny_skia, usvg};

/// Pixels per point.
const SCALE: f32 = 2.0;

pub(crate) fn from_svg(svg: &str) -> Result<Vec<u8>> {
    let mut options = usvg::Options { font_family: "Noto Sans".to_owned(), ..usvg::Options::default() };
    options.fontdb_mut().load_font_data(notosans::REGULAR_TTF.to_vec());
    options.fontdb_mut().load_font_data(notosans::BOLD_TTF.to_vec());
    let tree = usvg::Tree::from_str(svg, &options).context("the plot is not valid SVG")?;
    let size = tree.size().to_int_size().scale_by(SCALE).context("the plot has no area")?;
    let mut pixels = tiny_skia::Pixmap::new(size.width(), size.height()).context("the plot is too large")?;
    resvg::render(&tree, tiny_skia::Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
    pixels.encode_png().context("the plot cannot be written as PNG")
}
