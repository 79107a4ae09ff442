"""The same classifier behind HTTP, and one page to use it with: `dmn4 serve`."""
