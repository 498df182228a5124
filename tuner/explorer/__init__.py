"""Pages over a results folder, for `tiertune ui`: read only, from journals and the files beside them."""
