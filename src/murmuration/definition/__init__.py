"""Campaign files and published documents: read and written here, with every mistake on its line."""
