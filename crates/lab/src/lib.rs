//! Every figure of the papers behind Jeton, as data and as a plot.
