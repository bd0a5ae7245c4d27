# To be written by the packaging change.
